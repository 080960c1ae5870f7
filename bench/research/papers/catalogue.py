"""The figures, in the order of the page."""

from __future__ import annotations

from bench.research.papers.c4 import C4
from bench.research.papers.c6 import C3, C6
from bench.research.papers.figure import Figure
from bench.research.papers.m4 import M4, M5, M6
from bench.research.papers.p0 import P0
from bench.research.papers.p7 import P7, P8, P9, P10
from bench.research.papers.p10w import P10W
from bench.research.papers.p12 import P12
from bench.research.papers.p14 import P13, P14
from bench.research.papers.q5 import Q5
from bench.research.papers.r7 import R7
from bench.research.papers.s4 import S4
from bench.research.papers.w7 import W7
from bench.research.papers.w8 import W8, W9
from bench.research.papers.w10 import W10
from bench.research.papers.z4 import Z4, Z5
from bench.research.papers.z4w import Z4W
from bench.research.papers.z6 import Z6
from bench.research.papers.z7 import Z7, Z8
from bench.research.papers.z9 import Z9
from bench.research.papers.z11 import Z11
from bench.research.papers.z12 import Z12

FIGURES: tuple[Figure, ...] = (
    S4,
    Z4,
    Z4W,
    Z5,
    Z6,
    Z7,
    Z8,
    Z9,
    Z11,
    Z12,
    C3,
    C4,
    C6,
    W7,
    W8,
    W9,
    W10,
    Q5,
    R7,
    M4,
    M5,
    M6,
    P0,
    P7,
    P8,
    P9,
    P10,
    P10W,
    P12,
    P13,
    P14,
)
