"""The benchmark detector's eyes: samples the load, and above a threshold times embedded elements, until it is ended.

`python -m bench.research.detectors.elements FILE`. Source: MECHANISMS H8. An element is a frame of 20 rows that is
read, aggregated by key and written, as units do. The first timings, of an idle machine or not, are made in any case.
"""

from __future__ import annotations

import sys
import time

import msgspec
import polars as pl

from bench.research.detectors.machine_load import LoadMeter
from bench.research.detectors.recorder import monotonic_us
from bench.research.detectors.recording import Timing
from holdfast.services.kernel.codecs.frames import RowCodec

SAMPLE_S = 0.05
ELEMENTS = 20
LOAD = 0.6
"""Above this share of the machine elements are run."""

FIRST = 40
"""Number of first timings that are taken under any load, to calibrate the benchmark."""

_CODEC = RowCodec(pl.Schema({"user": pl.String(), "amount": pl.Int64()}))
_FRAME = _CODEC.encode(pl.DataFrame({"user": [f"user-{n % 7}" for n in range(20)], "amount": list(range(20))}))


def main(file: str) -> None:
    run_elements()  # lazy imports
    encode, meter, count = msgspec.json.Encoder().encode, LoadMeter(), 0
    with open(file, "ab", buffering=0) as lines:
        while True:
            time.sleep(SAMPLE_S)
            at_us, load, count = monotonic_us(), meter.share(), count + 1
            took_us = None
            if load > LOAD or count <= FIRST:
                run_elements()
                took_us = monotonic_us() - at_us
            lines.write(encode(Timing(at_us, round(load, 3), took_us)) + b"\n")


def run_elements() -> None:
    for _ in range(ELEMENTS):
        rows = _CODEC.decode(_FRAME)
        _CODEC.encode(rows.group_by("user").agg(pl.col("amount").sum()).sort("user"))


if __name__ == "__main__":
    main(*sys.argv[1:])
