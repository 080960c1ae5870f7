"""Options of the command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.catalogue import BY_NAME, MEASURES, Measure
from bench.rig.scale import QUICK, Scale


@dataclass(frozen=True, slots=True)
class Options:
    """The command line, checked."""

    measures: tuple[Measure, ...]
    runs: int
    scale: Scale
    file: Path | None
    only_list: bool


def parse(words: Sequence[str] | None = None) -> Options:
    """The options of a command line. Exits with status 2 on impossible ones."""
    parser = _parser()
    found = parser.parse_args(words)
    for name in found.measures:
        if name not in BY_NAME:
            parser.error(f"there is no measure {name!r}: one of {', '.join(BY_NAME)}")
    chosen = [measure for measure in MEASURES if measure.name in found.measures or not found.measures]
    if not found.measures:
        chosen = [measure for measure in chosen if measure.standard and (measure.quick or not found.quick)]
    scale = QUICK if found.quick else Scale()
    given = {"records": found.records, "minutes": found.minutes}
    scale = replace(scale, **{name: value for name, value in given.items() if value is not None})
    scale = replace(scale, beside=found.peers)
    runs = found.runs or (1 if found.quick else 3)
    return Options(tuple(chosen), runs, scale, found.json, found.list)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench",
        description="Measures a cluster on this machine: a table on stderr, one line of JSON on stdout or in a file.",
        epilog="Four benches of their own: `failover` kills and stalls workers under each scheme, `detectors` counts "
        "false suspicions on a loaded machine, `against` measures another revision by turns with this one, `compose` "
        "builds and starts containers, and restarts and strikes them under load: each has `--help`.",
    )
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help="default: those that --list does not mark")
    parser.add_argument("--list", action="store_true", help="say what each measure is, and its targets")
    parser.add_argument("--runs", type=_positive, help="medians are of so many (default: 3, with --quick 1)")
    parser.add_argument("--records", type=_positive, help=f"preloaded for throughput (default: {Scale().records:,})")
    parser.add_argument(
        "--minutes", type=float, help=f"of disk, growth and console-memory (default: {Scale().minutes:g})"
    )
    parser.add_argument(
        "--peers", action="store_true", help="of cost: Kafka Streams beside; of nexmark: Flink SQL, by network"
    )
    parser.add_argument("--quick", action="store_true", help="less of everything: whether it works, hardly how fast")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append the line of JSON to a file")
    return parser


def _positive(text: str) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not above 0")
    return number
