"""`./scripts/campaign kills | brokers`: faults without end, every row checked."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.progress import Progress

from bench.compose.project import DockerFailed, no_engine
from holdfast.services.cli.terminal import console
from holdfast.services.node.start import EXPECTED
from tests.campaign import brokers
from tests.campaign.broker_faults import FAULTS
from tests.campaign.brokers import OutOfTime
from tests.campaign.kills import Strike, known_points, left_of, rounds_of, run_round, strikes
from tests.campaign.record import Record, bar_of, problems, scratch, summary, table
from tests.support.doomed_cluster import cluster_of
from tests.support.doomed_worker import POINTS

STATE = Path(".holdfast") / "campaign-kills.jsonl"
WORKERS = 3
PASSES = 3
"""Number of tries in other jobs for points that were not reached."""
INTERRUPTED = 130
_err = console(stderr=True)


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    record = Record(options.state, restart=options.restart)
    of_brokers = options.campaign == "brokers"
    if of_brokers:
        wanted = brokers.wanted(_possible(options.faults, containers=options.containers), options.times)
    else:
        wanted = strikes(options.points, options.times, options.random)
    status = 0
    if of_brokers and options.containers and (why := no_engine()):
        _err.print(f"error: {why}")
        return 1
    try:
        (brokers.run if of_brokers else _run)(record, wanted, options)
    except KeyboardInterrupt:
        _err.print("stopped; started again it continues from here")
        status = INTERRUPTED
    except OutOfTime:
        _err.print("out of time; started again it continues from here")
    except (*EXPECTED, DockerFailed) as error:
        _err.print(f"the cluster does not start: {error}", markup=False)
        status = 1
    if record.outcomes:
        _err.print((brokers.table if of_brokers else table)(record.outcomes))
    for text in problems(record.outcomes):
        _err.print(text, markup=False, soft_wrap=True)
    found: dict[str, Any] = brokers.summary(record.outcomes) if of_brokers else summary(record.outcomes, wanted)
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    return status or int(not record.exact or bool(left_of(wanted, record.outcomes)))


def _possible(faults: list[str], *, containers: bool) -> list[str]:
    cannot = brokers.impossible(faults, containers=containers)
    for fault, why in cannot.items():
        _err.print(f"{fault} is left out: {why}")
    return [fault for fault in faults if fault not in cannot]


def _run(record: Record, wanted: list[Strike], options: argparse.Namespace) -> None:
    chance = random.Random(options.seed)
    ends = time.monotonic() + options.minutes * 60
    left = left_of(wanted, record.outcomes)
    with bar_of("kills", _err) as bar:
        task = bar.add_task("", total=len(wanted), completed=len(wanted) - len(left))
        for _ in range(PASSES):
            rounds = enumerate(rounds_of(left, chance), len(record.outcomes) + 1)
            while _in_one_cluster(rounds, record, chance, ends, bar, task):
                pass
            left = left_of(wanted, record.outcomes)
            if not left:
                break


def _in_one_cluster(
    rounds: Iterator[tuple[int, tuple[str, list[Strike]]]],
    record: Record,
    chance: random.Random,
    ends: float,
    bar: Progress,
    task: object,
) -> bool:
    """Rounds until none is left or one is not exact; True if another cluster is to continue."""
    upcoming = next(rounds, None)
    if upcoming is None:
        return False
    with scratch(_err) as (folder, keep), cluster_of(WORKERS, folder) as cluster:
        while upcoming is not None:
            if time.monotonic() > ends:
                raise OutOfTime
            number, (kind, some) = upcoming
            name = f"{kind}-{number}"
            bar.update(task, description=name)  # type: ignore[arg-type]
            advance = lambda _, fired: bar.advance(task, int(fired))  # type: ignore[arg-type]  # noqa: E731
            outcomes = run_round(cluster, kind, name, some, chance, advance)
            record.add(outcomes)
            if not all(one.exact for one in outcomes):
                keep.append(name)
                return True
            upcoming = next(rounds, None)
    return False


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="campaign", description="Long runs that look for what is not exact.")
    campaigns = parser.add_subparsers(dest="campaign", required=True)
    kills = campaigns.add_parser(
        "kills",
        description="Kills workers at every record they write, and at random, and checks every row of every job. "
        "Started again it continues where it was. Exit status 1 if anything is not exact, or a point was not reached.",
        epilog="points: " + "; ".join(f"{name}: {what}" for name, what in POINTS.items()),
    )
    kills.add_argument("--points", nargs="+", default=[], metavar="POINT", help="default: all")
    kills.add_argument("--times", type=int, default=5, help="kills at each point, before, during and after it in turn")
    kills.add_argument("--random", type=int, default=100, help="kills at any time")
    _add_common(kills, STATE)
    of_brokers = campaigns.add_parser(
        "brokers",
        description="Kills, freezes, restarts and cuts off brokers of a Kafka of three, and workers with them, and "
        "checks every row of every job by the job's own check and by replay. Started again it continues where it was. "
        "Exit status 1 if anything is not exact.",
        epilog="faults: " + "; ".join(f"{name}: {what}" for name, what in FAULTS.items()),
    )
    of_brokers.add_argument("--faults", nargs="+", default=[], metavar="FAULT", help="default: all")
    of_brokers.add_argument("--times", type=int, default=500, help="faults in all")
    _add_common(of_brokers, brokers.STATE)
    of_brokers.add_argument("--containers", action="store_true", help="of the cluster of compose/compose.yaml")
    options = parser.parse_args(words)
    try:
        if options.campaign == "kills":
            options.points = known_points(options.points)
        else:
            options.faults = brokers.known_faults(options.faults)
            if options.containers and options.state == brokers.STATE:
                options.state = brokers.STATE_OF_CONTAINERS
    except ValueError as error:
        parser.error(str(error))
    return options


def _add_common(parser: argparse.ArgumentParser, state: Path) -> None:
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long; it can be continued")
    parser.add_argument("--restart", action="store_true", help="forget what was done before")
    parser.add_argument("--state", type=Path, default=state, metavar="FILE", help=f"default: {state}")


if __name__ == "__main__":
    sys.exit(main())
