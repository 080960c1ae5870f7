"""The figures, in the order of the page."""

from __future__ import annotations

from bench.papers.figure import Figure
from bench.papers.w7 import W7
from bench.papers.w8 import W8, W9
from bench.papers.w10 import W10
from bench.papers.z4 import Z4, Z5

FIGURES: tuple[Figure, ...] = (Z4, Z5, W7, W8, W9, W10)
