"""`python -m tests.records`: a campaign of random records, part by part, and the figures so far after each."""

from __future__ import annotations

import argparse
import logging
import sys
import time

import structlog

from tests.records.decoders import damaged_part
from tests.records.formats import FORMATS
from tests.records.fuzz import Counted, part


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.records", description=__doc__)
    parser.add_argument("--format", choices=FORMATS, action="append", help="all formats unless it is given")
    parser.add_argument("--records", type=int, default=1_000_000, help="of each format")
    parser.add_argument("--part", type=int, default=5_000, help="records of one job")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first part")
    parser.add_argument("--decoders", action="store_true", help="damaged records through the decoders alone")
    asked = parser.parse_args()
    run = damaged_part if asked.decoders else part
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    failed = 0
    counts = {format: Counted() for format in asked.format or FORMATS}
    for seed in range(asked.first, asked.first + -(-asked.records // asked.part)):
        for format, counted in counts.items():
            began = time.process_time()
            try:
                counted.add(run(format, seed, asked.part))
            except Exception as error:  # every failure is shown, and the campaign continues
                failed += 1
                print(f"FAILED {format}, seed {seed}: {type(error).__name__}: {str(error)[:2_000]}", flush=True)
            counted.cpu_s += time.process_time() - began
        print(f"seed {seed}: " + "; ".join(f"{format} {one}" for format, one in counts.items()), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
