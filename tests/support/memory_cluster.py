"""Workers on a log in memory, without a controller: a test places units where it likes, even twice, and kills them.

The clock advances by one millisecond a turn, nothing waits, so one test is one history. `now_ms` is what nobody can
set; with `day_ms` added it is the time of day. A worker whose last turn did nothing takes its next one once the log has
changed or something is due (see `sleepers.py`): nine turns of ten are left out, and the history stays the same.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.schemas import assignments, cuts, plans
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Flags, Unshown
from holdfast.schemas.cuts import Beginning, Control
from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.dead_letters import decode as decode_dead
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import ClusterTopics, JobTopics, Partition, TopicSpec
from holdfast.services.decisions.shares import owned
from holdfast.services.hosting.blocking_calls import SOON_MS, Call, Done, Inline
from holdfast.services.hosting.identity import Identity
from holdfast.services.kernel.codecs.registered import NO_SCHEMAS, Schemas
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.plans.layout import data_topics
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.log.protocol import At
from holdfast.services.planning.check import Describe
from holdfast.services.planning.loader import load
from holdfast.services.planning.plan import make_plan
from holdfast.services.worker.isolated.isolation import Isolation
from holdfast.services.worker.process.loop import Worker
from tests.support.deadlines import HANG_S
from tests.support.sleepers import ChangingLog, Sleepers

if TYPE_CHECKING:
    from holdfast.services.worker.host.spans import Spans

GENERATION = "0-abcdef"
VERSIONS = {"holdfast": "test"}
MAX_TURNS = 20_000


class Delayed:
    """Blocking calls that take `turns` turns of the loop, one after the other. Implements Blocking."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._calls: deque[tuple[Call, Done]] = deque()
        self._left = turns

    def run(self, call: Call, done: Done, lane: str = "", soon: bool = True) -> None:
        self._calls.append((call, done))

    def poll(self) -> bool:
        if not self._calls:
            return False
        self._left -= 1
        if self._left > 0:
            return False
        self._left = self._turns
        inline = Inline()
        inline.run(*self._calls.popleft())
        return inline.poll()

    def look_ms(self) -> float:
        return SOON_MS if self._calls else math.inf

    def close(self) -> None:
        self._calls.clear()


class MemoryCluster:
    """A job, placed by hand. Partitions of the user's topics: one a source task.

    Args:
        delivery_turns: how long a transaction takes; 0: done at once.
        describe: outputs of operators.
        schemas: that the workers read records by which name theirs.
    """

    final: tuple[str, ...] = ("faulted",)
    """States of copies, beside `failed`, that nothing here leads on from."""

    def __init__(
        self,
        job: str,
        delivery_turns: int = 0,
        describe: Describe = catalogue.describe,
        schemas: Schemas = NO_SCHEMAS,
    ) -> None:
        self._schemas = schemas
        self.now_ms = 0
        self.day_ms = 1_700_000_000_000
        self._delivery_turns = delivery_turns
        self.log = ChangingLog(lambda: self.day_ms + self.now_ms)
        self._sleepers = Sleepers(self.log)
        self.cluster = ClusterTopics("t")
        self.log.create(self.cluster.specs())
        self._appender = self.log.appender("test")
        spec = load(job, "job.yaml")
        self.plan: Plan = make_plan(
            spec,
            generation=GENERATION,
            id=Id("test", 1),
            topics=None,
            first={},
            prefix=self.cluster.prefix,
            versions=VERSIONS,
            allow=["tests"],
            describe=describe,
        )
        self.topics: JobTopics = self.cluster.job(self.plan.job, GENERATION)
        self._create_topics()
        self.plan = pinned(self.plan, self.log)
        self._append(Partition(self.cluster.plans, 0), plans.encode(self.plan))
        self.workers: dict[str, Worker] = {}
        self._epochs: dict[str, int] = {}
        self._lines: dict[str, tuple[int, int]] = {}
        self._controls = 0

    # -- what a user does ---------------------------------------------------------------------------------------------

    def feed(self, source: str, records: Iterable[object], partition: int = 0) -> None:
        """Appends records, as JSON unless they are bytes already."""
        topic = next(s.topic for s in self.plan.sources if s.operator == source)
        for record in records:
            value = record if isinstance(record, bytes) else msgspec.json.encode(record)
            self._append(Partition(topic, partition), value)

    def delete(self, source: str, keys: Iterable[bytes | None], partition: int = 0) -> None:
        """Appends records without a value."""
        topic = next(s.topic for s in self.plan.sources if s.operator == source)
        for key in keys:
            self._appender.append(Partition(topic, partition), None, key=key)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Rows that the query's sink has committed, in the order of its log."""
        topic = next(o.params["topic"] for o in self.plan.operators if o.kind == "sink" and o.params["query"] == query)
        partitions = self.log.topics()[topic]
        return [
            msgspec.json.decode(message.value() or b"null")
            for index in range(partitions)
            for message in self.log.scan(Partition(topic, index))
        ]

    def dead_letters(self) -> list[DeadLetter]:
        """In the order of their log."""
        partition = Partition(self.topics.dead_letters, 0)
        return [decode_dead(message.value() or b"") for message in self.log.scan(partition)]

    def starts_of_data(self) -> dict[Partition, int]:
        """The log start of every data partition."""
        partitions = [Partition(name, i) for name, count in data_topics(self.plan).items() for i in range(count)]
        return self.log.offsets(partitions, "start")

    def replace(self, source: str, partitions: int = 1) -> None:
        """Deletes the source's topic and creates it again."""
        topic = next(s.topic for s in self.plan.sources if s.operator == source)
        self.log.delete([topic])
        self.log.create([TopicSpec(topic, partitions)])

    def resume_from(self, at: At) -> None:
        """Appends a resume that says where topics that were created again are read from, as the controller does."""
        beginnings = {}
        for source in self.plan.sources:
            topic, tasks = self.log.describe([source.topic])[source.topic], len(source.owners)
            partitions = [Partition(source.topic, index) for index in range(topic.partitions)]
            found = self.log.offsets(partitions, at)
            first = {
                f"{source.operator}-{index}": {p.index: found[p] for p in partitions[index::tasks]}
                for index in range(tasks)
            }
            beginnings[source.operator] = Beginning(topic.id, first)
        self._controls += 1
        record = Control("resume", self._controls, beginnings=beginnings)
        self._append(Partition(self.topics.cuts, 0), cuts.encode(record))

    def control(self, kind: str) -> None:
        """Appends pause, resume or drain to the cut log, as the controller does."""
        ends: dict[str, dict[int, int]] = {}
        if kind == "drain":
            counts = self.log.topics()
            for task, partitions in owned(self.plan, counts).items():
                topic = next(s.topic for s in self.plan.sources if s.operator == task.rpartition("-")[0])
                there = [Partition(topic, p) for p in partitions if p < counts.get(topic, 0)]
                found = self.log.offsets(there, "end")
                ends[task] = {p.index: offset for p, offset in found.items()}
        self._controls += 1
        self._append(Partition(self.topics.cuts, 0), cuts.encode(Control(kind, self._controls, ends)))

    # -- what a controller and a machine do ---------------------------------------------------------------------------

    def start(
        self, name: str, incarnation: str = "", spans: Spans | None = None, left: Callable[[], None] = lambda: None
    ) -> Worker:
        """A new incarnation; an earlier one of that name is gone without a word. spans: of its batches. left: is told
        when a copy was closed.
        """
        incarnation = incarnation or f"{name}-{self.now_ms:08d}"  # later ones sort later
        worker = Worker(
            Identity(name, incarnation),
            self.log,
            self.cluster,
            clock_ms=lambda: float(self.now_ms),
            time_ms=lambda: self.day_ms + self.now_ms,
            image=lambda _: MemoryImage(),
            deliveries=Delayed(self._delivery_turns) if self._delivery_turns else Inline(),
            restores=Inline(),
            isolation=Isolation(patience_s=HANG_S, loading_s=HANG_S),
            spans=spans,
            left=left,
            schemas=self._schemas,
        )
        self.workers[name] = worker
        return worker

    def kill(self, name: str) -> None:
        """SIGKILL: it takes no further turn."""
        del self.workers[name]

    def place(
        self, placement: Mapping[str, Sequence[Worker | tuple[Worker, Flags]]], unshown: Sequence[Worker] = ()
    ) -> None:
        """Assigns units to workers; a worker without flags gets a primary's. unshown: these have other versions."""
        changes = []
        for unit, workers in placement.items():
            key = assignments.unit_key(self.plan.job, GENERATION, unit)
            self._epochs[unit] = self._epochs.get(unit, 0) + 1
            flagged = [(one, PRIMARY) if isinstance(one, Worker) else one for one in workers]
            copies = tuple(Copy(w.identity.worker, w.identity.incarnation, flags) for w, flags in flagged)
            line, back = self._lines.get(unit, (0, 0))
            others = tuple(Unshown(worker.identity.worker, "others") for worker in unshown)
            changes.append(Change(key, self._epochs[unit], copies, reason="test", line=line, back=back, unshown=others))
            assert changes[-1].well_formed, changes[-1]
        record = Assignment("test", self.now_ms, tuple(changes))
        self._append(Partition(self.cluster.assignments, 0), assignments.encode(record))

    def begin_line(self, units: Iterable[str], line: int, back: int) -> None:
        """From their next placement on these units are on this line, which begins at that global checkpoint."""
        self._lines.update(dict.fromkeys(units, (line, back)))

    @property
    def units(self) -> list[str]:
        """Units of the workers."""
        return [unit.name for unit in self.plan.units if not unit.host]

    # -- time ---------------------------------------------------------------------------------------------------------

    def turn(self, count: int = 1) -> None:
        """Every worker takes `count` turns, a millisecond each."""
        until_ms = self.now_ms + count
        while self.now_ms < until_ms:
            self.now_ms = min(self._sleepers.idle_until(self.workers.values(), self.now_ms), until_ms - 1) + 1
            for worker in list(self.workers.values()):
                self._sleepers.turn(worker, self.now_ms)

    def until(self, condition: Callable[[], bool]) -> None:
        """Takes turns until the condition holds; fails with what every copy reports when it never does."""
        for _ in range(MAX_TURNS):
            if condition():
                return
            self.turn()
        states = {name: worker.copies() for name, worker in self.workers.items()}
        raise AssertionError(f"not reached in {MAX_TURNS} turns; copies: {states}")

    def ended(self) -> bool:
        """Every unit has a copy that has processed the end, and none has failed."""
        copies = [copy for worker in self.workers.values() for copy in worker.copies()]
        broken = [copy for copy in copies if copy.state in ("failed", *self.final)]
        assert not broken, broken
        return {copy.unit.split("/")[1] for copy in copies if copy.state == "ended"} >= set(self.units)

    def run_to_end(self) -> None:
        self.control("drain")
        self.until(self.ended)

    def _append(self, partition: Partition, value: bytes) -> None:
        self._appender.append(partition, value)

    def _create_topics(self) -> None:
        self.log.create(self.topics.specs(len(self.plan.units), data_topics(self.plan)))
        for source in self.plan.sources:
            count = max(p for owned in source.owners for p in owned) + 1
            self.log.create([TopicSpec(source.topic, count)])
        for operator in self.plan.operators:
            if operator.kind == "sink":
                self.log.create([TopicSpec(operator.params["topic"], max(1, operator.params["partitions"]))])


def pinned(plan: Plan, log: ChangingLog) -> Plan:
    """With the ids of the topics that it reads."""
    known = log.describe({source.topic for source in plan.sources})
    sources = [msgspec.structs.replace(s, topic_id=known[s.topic].id) for s in plan.sources]
    return msgspec.structs.replace(plan, sources=tuple(sources))
