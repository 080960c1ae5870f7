"""A host's copies are those that plans and assignments name for its incarnation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from holdfast.schemas import assignments, plans
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Flags
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Ended, Plan, Skip
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.admitted import Skipped
from holdfast.services.hosting.copies import Copies
from holdfast.services.hosting.decisions import Decisions
from holdfast.services.hosting.identity import Identity
from holdfast.services.log.memory import MemoryLog
from holdfast.services.planning.loader import load
from holdfast.services.planning.plan import make_plan

JOB = """
name: j
sources: {s: {topic: in, fields: {x: int}}}
queries: {q: {input: s, sink: {topic: out}}}
"""
TOPICS = ClusterTopics("t")
PLAN: Plan = make_plan(
    load(JOB, "job.yaml"),
    generation="0-abcdef",
    id=Id("c", 1),
    topics=None,
    first={},
    prefix="t",
    versions={},
    allow=[],
)
UNIT = PLAN.units[0].name
KEY = f"j@0-abcdef/{UNIT}"


@dataclass
class Seen:
    """A copy that notes what is asked of it."""

    unit: str
    epoch: int = 0
    flags: Flags | None = None
    gone: bool = False

    def place(self, epoch: int, flags: Flags) -> None:
        self.epoch, self.flags = epoch, flags

    def unplace(self) -> None:
        self.gone = True


@dataclass
class Following:
    """A host, with a log in memory."""

    log: MemoryLog = field(default_factory=lambda: MemoryLog(lambda: 0))
    begun: list[Seen] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    skips: list[Skipped] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log.create(TOPICS.specs())
        self._appender = self.log.appender("test")
        self._decisions = Decisions(
            Identity("w1", "1-a"), self.log, TOPICS, lambda where, offset, cause: self.refused.append(offset)
        )
        self._reader = self.log.reader("test")
        self._reader.assign(self._decisions.positions)
        self.copies = Copies(self._decisions, self._begin, lambda generation, skipped: self.skips.append(skipped))

    def _begin(self, plan: Plan, unit: str) -> Seen | None:
        if unit not in {one.name for one in plan.units}:
            return None
        self.begun.append(Seen(unit))
        return self.begun[-1]

    def append(self, topic: str, value: bytes) -> None:
        self._appender.append(Partition(topic, 0), value)

    def decide(self, decision: Any) -> None:
        self.append(TOPICS.plans, plans.encode(decision))

    def assign(self, epoch: int, *copies: Copy, unit: str = KEY) -> None:
        change = Change(unit, epoch, tuple(copies), reason="test")
        self.append(TOPICS.assignments, assignments.encode(Assignment("test", 0, (change,))))

    def follow(self) -> dict[str, Seen]:
        if any([self._decisions.read(chunk) for chunk in self._reader.poll(0)]):
            self.copies.reconcile()
        return self.copies.here


MINE = Copy("w1", "1-a", PRIMARY)


def test_a_copy_begins_when_plan_and_assignment_are_both_known_and_follows_later_epochs() -> None:
    host = Following()
    host.assign(1, MINE)
    assert host.follow() == {}
    host.decide(PLAN)
    assert host.follow()[KEY].epoch == 1
    host.assign(2, MINE)
    assert host.follow()[KEY].epoch == 2
    assert len(host.begun) == 1


def test_a_copy_ends_when_another_incarnation_is_named_or_its_job_has_ended() -> None:
    host = Following()
    host.decide(PLAN)
    host.assign(1, MINE)
    host.follow()
    host.assign(2, replace(MINE, incarnation="2-b"))
    assert host.follow() == {}
    assert host.begun[0].gone
    host.assign(3, MINE)
    assert host.follow()[KEY].epoch == 3
    host.decide(Ended(PLAN.job, PLAN.generation, Id("c", 2), PLAN.id, "cancelled"))
    assert host.follow() == {}


def test_an_assignment_of_a_unit_that_no_plan_has_begins_nothing() -> None:
    host = Following()
    host.decide(PLAN)
    host.assign(1, MINE, unit="j@0-abcdef/absent-0")
    host.assign(1, MINE, unit=KEY.replace("j@", "other@"))
    assert host.follow() == {}


def test_a_record_that_cannot_be_read_is_refused_and_the_next_one_counts() -> None:
    host = Following()
    host.append(TOPICS.plans, b"{")
    host.decide(PLAN)
    host.assign(1, MINE)
    assert list(host.follow()) == [KEY]
    assert host.refused == [0]


def test_records_that_a_person_skips_are_handed_to_the_host_of_the_job() -> None:
    host = Following()
    host.decide(PLAN)
    host.assign(1, MINE)
    host.follow()
    topic = TOPICS.job(PLAN.job, PLAN.generation).cuts
    host.decide(Skip(PLAN.job, PLAN.generation, topic, 0, 7))
    host.follow()
    assert host.skips[-1] == {Partition(topic, 0): frozenset({7})}
