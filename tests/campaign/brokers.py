"""`./scripts/campaign brokers`: strikes the brokers of a cluster of three, and every row is checked twice."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from holdfast.schemas.topics import TopicSpec
from holdfast.services.cli.terminal import console
from tests.campaign import broker_containers, broker_processes
from tests.campaign.broker_containers import ContainerCluster, container_cluster
from tests.campaign.broker_faults import FAULTS, BrokerFaults, Brokers
from tests.campaign.broker_rounds import BrokerRound, kinds
from tests.campaign.kills import Outcome, Strike, left_of
from tests.campaign.plain import TOPIC, Plain
from tests.campaign.record import Record, bar_of, counts, scratch
from tests.support.doomed_cluster import DoomedCluster, cluster_of

STATE = Path(".holdfast") / "campaign-brokers.jsonl"
STATE_OF_CONTAINERS = STATE.with_name("campaign-brokers-containers.jsonl")
WORKERS, BROKERS, REPLICAS_OF_RECOVERY = 3, 3, 2
STRIKES_A_ROUND = 8
ROUNDS_A_CLUSTER = 20
"""Then all begins again: a machine that runs a campaign for hours is not to fill up."""
LOG_LINES = 5000
"""Lines of each container's log where a round was not exact: the containers themselves are gone then."""
_err = console(stderr=True)


class OutOfTime(Exception):
    """The minutes that were given are over."""


def wanted(faults: Sequence[str], number: int) -> list[Strike]:
    """So many strikes, each fault as often as any other."""
    return [Strike(faults[place % len(faults)]) for place in range(number)]


def known_faults(names: Sequence[str]) -> list[str]:
    """All of them for none. Raises ValueError for one that there is not."""
    for name in names:
        if name not in FAULTS:
            raise ValueError(f"there is no fault {name!r}: one of {', '.join(FAULTS)}")
    return list(names) or list(FAULTS)


def impossible(faults: list[str], *, containers: bool) -> dict[str, str]:
    """Faults that cannot be made there, and why."""
    why = {}
    if not containers:
        why = dict.fromkeys(broker_processes.STRANGE, "the supervisor starts a broker again at once")
        if not broker_processes.can_partition():
            why["partition-one"] = "it needs root and iptables"
    return {fault: why[fault] for fault in faults if fault in why}


def run(record: Record, strikes: list[Strike], options: argparse.Namespace) -> None:
    """Until all strikes are made. Raises OutOfTime, EXPECTED of the supervisor, DockerFailed, KeyboardInterrupt."""
    chance = random.Random(options.seed + len(record.outcomes))
    ends = time.monotonic() + options.minutes * 60
    left = left_of(strikes, record.outcomes)
    chance.shuffle(left)
    struck = _containers if options.containers else _processes
    with bar_of("strikes", _err) as bar:
        task = bar.add_task("", total=len(strikes), completed=len(strikes) - len(left))
        numbers = count(len(record.outcomes) + 1)
        while left:
            with scratch(_err) as (folder, keep), struck(folder, chance) as (cluster, brokers):
                keep += _in_one_cluster(
                    cluster, brokers, record, left, numbers, chance, ends,
                    lambda text, n: bar.update(task, description=text, advance=n),
                )  # fmt: skip
                if keep and isinstance(cluster, ContainerCluster):
                    (folder / "containers.log").write_text(cluster.project.logs(LOG_LINES))


@contextmanager
def _processes(folder: Path, chance: random.Random) -> Iterator[tuple[DoomedCluster, Brokers]]:
    with (
        cluster_of(WORKERS, folder, brokers=BROKERS, recoveries=REPLICAS_OF_RECOVERY) as cluster,
        broker_processes.brokers_of(cluster) as brokers,
    ):
        yield cluster, brokers


@contextmanager
def _containers(folder: Path, chance: random.Random) -> Iterator[tuple[ContainerCluster, Brokers]]:
    with container_cluster(folder) as cluster, broker_containers.brokers_of(cluster, chance) as brokers:
        yield cluster, brokers


def _in_one_cluster(cluster: DoomedCluster | ContainerCluster, brokers: Brokers, record: Record, left: list[Strike],
                    numbers: Iterator[int], chance: random.Random, ends: float, say: Any) -> list[str]:  # fmt: skip
    """Some rounds, or until one is not exact, whose name it returns; takes what it has done from `left`."""
    faults = BrokerFaults(brokers, chance)
    cluster.log.create([TopicSpec(TOPIC, 1)])
    every = kinds(images=isinstance(cluster, ContainerCluster))
    with Plain(brokers.bootstrap_servers) as plain:
        for number in range(ROUNDS_A_CLUSTER):
            if not left:
                return []
            if time.monotonic() > ends:
                raise OutOfTime
            kind = every[(number + len(record.outcomes)) % len(every)]
            name = f"{kind}-{next(numbers)}"
            some = left[:STRIKES_A_ROUND]
            say(name, 0)
            outcomes = BrokerRound(cluster, faults, plain, kind, name, chance).run(some, partial(say, name, 1))
            record.add(outcomes)
            for one in outcomes:
                left.remove(Strike(one.point))
            if not all(one.exact for one in outcomes):
                return [name]
    return []


def table(outcomes: Sequence[Outcome]) -> Table:
    """A row for each fault; silences of results beside those of a plain producer and consumer, in seconds."""
    columns = ("fault", "times", "lost", "duplicated", "wrong", "other", "silence p50", "worst", "plain p50", "worst")
    drawn = Table(*columns, box=SIMPLE_HEAD, pad_edge=False)
    for fault in sorted({one.point for one in outcomes}):
        some = [one for one in outcomes if one.point == fault]
        drawn.add_row(fault, *_cells(some))
    drawn.add_section()
    drawn.add_row("all", *_cells(outcomes))
    return drawn


def _cells(some: Sequence[Outcome]) -> list[str]:
    numbers = counts(some)
    measured = [one for one in some if one.silence_ms]
    silences = [_seconds([one.silence_ms for one in measured]), _seconds([one.plain_ms for one in measured])]
    cells = [str(numbers[name]) for name in ("times", "lost", "duplicated", "wrong", "other")]
    return [*cells, *(cell for pair in silences for cell in pair)]


def _seconds(some: Sequence[int]) -> tuple[str, str]:
    return (f"{median(some) / 1000:.1f}", f"{max(some) / 1000:.1f}") if some else ("", "")


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The last line of output."""
    found: dict[str, Any] = {}
    for fault in sorted({one.point for one in outcomes}):
        some = [one for one in outcomes if one.point == fault]
        silences = {name: sorted(getattr(o, name) for o in some if o.silence_ms) for name in ("silence_ms", "plain_ms")}
        measured = {name: {"p50": median(v), "worst": v[-1]} for name, v in silences.items() if v}
        found[fault] = {**counts(some), **measured}
    return {**counts(outcomes), "faults": found}
