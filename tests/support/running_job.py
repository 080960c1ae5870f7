"""A job of the campaigns under load on a real cluster, from its submission to the check of all its rows."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from holdfast.schemas import commands, plans, progress
from holdfast.schemas.plans import Ended, Plan, Rejection
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.audit.replay import Report, replay
from holdfast.services.kernel.errors import Retriable
from holdfast.services.planning.loader import load
from holdfast.services.worker.core.trim_limit import later
from tests.campaign.jobs import Job, Row, value
from tests.support.cluster import Cluster
from tests.support.commands import DEADLINE_S, LOOK_AGAIN_S, answered
from tests.support.doomed_cluster import DoomedCluster

CHUNK = 40
KEYED = {"totals", "hours"}
"""Queries whose rows have keys: their topics have two partitions."""


class NotReached(Exception):
    """Something that must come has not come in time."""


class RunningJob:
    """A job under load, from its submission to its end. fed: numbers fed so far."""

    def __init__(self, cluster: Cluster, job: Job, name: str) -> None:
        self.cluster, self.job, self.name = cluster, job, name
        self.fed = 0
        self._progress: dict[str, Progress] = {}
        self._next_offset = 0
        self._pause = threading.Event()
        self._plans = cluster.log.offsets([Partition(cluster.topics.plans, 0)], "end")
        sources = [TopicSpec(f"{name}-{source}", 2) for source in job.sources]
        sinks = [TopicSpec(f"{name}-{query}", 2 if query in KEYED else 1) for query in job.queries]
        cluster.log.create([*sources, *sinks])
        self.draining = False
        self._units: list[str] = []
        self._sources: set[str] = set()
        self._own = cluster.topics.job(name, "")

    def submit(self) -> None:
        """Returns when it is admitted. Raises NotReached."""
        self._command(commands.encode(load(self.job.text.substitute(name=self.name), "job.yaml").as_plain()))
        plan: Plan = self.until(lambda: self._decided(Plan), "the job is admitted")
        self._own = self.cluster.topics.job(self.name, plan.generation)
        self._units = [unit.name for unit in plan.units]
        sources = {source.operator for source in plan.sources}
        self._sources = {unit.name for unit in plan.units if sources & set(unit.operators)}

    @property
    def root(self) -> str:
        """Prefix of the names of its own topics."""
        return f"{self._own.root}."

    # -- input --------------------------------------------------------------------------------------------------------

    def feed(self, count: int = CHUNK) -> None:
        """Returns when the records are acknowledged."""
        for number in range(self.fed, self.fed + count):
            for source in self.job.sources:
                self.cluster.appender.append(Partition(f"{self.name}-{source}", number % 2), value(source, number))
        self.cluster.appender.flush(DEADLINE_S)
        self.fed += count

    def until(self, condition: Callable[[], Any], what: str, *, load: int = 0, seconds: float = DEADLINE_S) -> Any:
        """Looks again and again, also where Kafka is too busy to answer; load: numbers fed in between.

        Raises NotReached.
        """
        deadline = time.monotonic() + seconds
        while True:
            with suppress(Retriable):
                if found := condition():
                    return found
            if time.monotonic() > deadline:
                raise NotReached(f"{self.name}: not within {seconds:g} s: {what}")
            if load:
                self.feed(load)
            self._pause.wait(LOOK_AGAIN_S)

    def run_for(self, seconds: float, load: int) -> None:
        """Lets time pass, under load."""
        ends = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= ends, "time passes", load=load)

    # -- how far it is ------------------------------------------------------------------------------------------------

    @property
    def batch(self) -> int:
        """The last that a unit with a source has processed, as far as is known."""
        return max((self._progress[unit].processed for unit in self._sources if unit in self._progress), default=0)

    def caught_up(self) -> bool:
        """All that was fed is taken in, and every unit has processed it."""
        self.look()
        taken = sum(one.records for unit, one in self._progress.items() if unit in self._sources)
        known = [self._progress.get(unit) for unit in self._units]
        done = min(0 if one is None else one.processed for one in known)
        return taken >= self.fed * len(self.job.sources) and done >= self.batch

    def look(self) -> None:
        """Reads on in the job's progress."""
        for message in self.cluster.log.scan(Partition(self._own.progress, 0), self._next_offset):
            self._next_offset = message.offset() + 1
            one = progress.decode(message.value() or b"")
            known = self._progress.get(one.unit)
            self._progress[one.unit] = one if known is None else later(known, one)

    def where(self) -> Mapping[str, tuple[int, int, int]]:
        """By unit: processed, acked, records; for a message."""
        return {name: (one.processed, one.acked, one.records) for name, one in self._progress.items()}

    # -- the end ------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Drains the job: records that are fed from now on are not the job's."""
        self.draining = True
        self._command(commands.encode(commands.Command("drain", self.name)))

    def await_end(self) -> None:
        """Raises NotReached."""
        self.until(lambda: self._decided(Ended), "the job ends")

    def replayed(self) -> Report:
        return answered(lambda: replay(self.cluster.log, self.cluster.topics, self.name))

    def problems(self) -> list[str]:
        """Problems of its rows by the job's own check, computed without the product."""
        try:
            self.job.check(self._rows, self.fed)
        except AssertionError as error:
            return [f"{self.job.kind}: {str(error)[:2000]}"]
        return []

    def forget(self) -> None:
        """Its topics go, those kept for the replay, too."""
        mine = [name for name in self.cluster.log.topics() if name.startswith((f"{self.name}-", self.root))]
        self.cluster.log.delete(mine)

    def _rows(self, query: str) -> list[Row]:
        partitions = range(2 if query in KEYED else 1)
        scans: Sequence[Any] = [self.cluster.log.scan(Partition(f"{self.name}-{query}", index)) for index in partitions]
        return [json.loads(message.value() or b"") for scan in scans for message in scan]

    def _command(self, record: bytes) -> None:
        self.cluster.appender.append(Partition(self.cluster.topics.submit, 0), record)
        self.cluster.appender.flush(DEADLINE_S)

    def _decided(self, kind: type[Plan] | type[Ended]) -> Any:
        partition = Partition(self.cluster.topics.plans, 0)
        for message in self.cluster.log.scan(partition, self._plans[partition]):
            decision = plans.decode_any(message.value() or b"")
            if not isinstance(decision, Plan | Rejection | Ended):
                continue  # a controller's snapshot
            if decision.job == self.name and not isinstance(decision, Plan | Ended):
                raise NotReached(f"{self.name} was rejected: {[str(one) for one in decision.problems]}")
            if decision.job == self.name and isinstance(decision, kind):
                return decision
        return None


class DoomedJob(RunningJob):
    """On a cluster whose workers die where they are told to."""

    cluster: DoomedCluster

    def __init__(self, cluster: DoomedCluster, job: Job, name: str) -> None:
        super().__init__(cluster, job, name)
