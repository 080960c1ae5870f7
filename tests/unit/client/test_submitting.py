"""`submit` waits for as long as a job may take, and tells how far it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.schemas import plans
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Ended, Status
from holdfast.schemas.topics import ClusterTopics, Partition, generation
from holdfast.services.client.submission import command, on_spark, patience_s, submit
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Message
from holdfast.services.planning.loader import interpret
from holdfast.services.view.door import Door
from holdfast.services.view.lines import JobLine
from holdfast.services.view.reader import Watch

TOPICS = ClusterTopics("c")
SPARK = {"spark": {"sql": "SELECT a FROM input"}, "input": "s"}
FILTER = {"filter": "a > 0", "input": "s"}


class Answering(MemoryLog):
    """A cluster that answers a submission with these states, one after the other."""

    def __init__(self, *states: tuple[str, int]) -> None:
        super().__init__(lambda: 0)
        self.create(TOPICS.specs())
        self._states = list(states)

    def answer(self) -> None:
        """To the last submission."""
        last = self.last(Partition(TOPICS.submit, 0))
        if last is None or not self._states:
            return
        state, available = self._states.pop(0)
        status = Status("job", generation_of(last), state, 0, available=available, units=2)
        appender = self.appender("controller")
        appender.append(Partition(TOPICS.status, 0), plans.encode(status))
        appender.flush(1)


def generation_of(message: Message) -> str:
    return generation(message.offset(), message.timestamp()[1], message.value() or b"")


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Answering:
    log = Answering(("accepted", 0), ("starting", 1), ("running", 2))
    take = Watch.records

    def records(self: Watch, timeout_s: float) -> object:
        while log._states:
            log.answer()
        return take(self, timeout_s)

    monkeypatch.setattr(Watch, "records", records)
    return log


def door(log: MemoryLog) -> Door:
    return cast(Door, SimpleNamespace(log=log, topics=TOPICS))


def test_progress_is_reported_until_the_job_runs(answered: Answering) -> None:
    told: list[str] = []
    assert submit(door(answered), {"name": "job"}, 30, told.append).status.available == 2
    assert told == [
        "accepted: Spark is asked what it makes of the job",
        "starting: 1 of 2 units run",
        "running: 2 of 2 units run",
    ]


@pytest.mark.slow
def test_a_job_that_does_not_run_in_time_is_said_to_be_where_it_is(answered: Answering) -> None:
    answered._states.pop()
    with pytest.raises(CommandFailed, match=r"job job is starting after 0\.5 s, 1 of 2 units run"):
        submit(door(answered), {"name": "job"}, 0.5, lambda how_far: None)


@pytest.mark.parametrize(("operators", "seconds"), [({"f": FILTER}, 60), ({"f": FILTER, "h": SPARK}, 300)])
def test_an_operator_on_spark_may_take_its_time(operators: dict[str, object], seconds: float) -> None:
    sources = {"s": {"topic": "t", "fields": {"a": "int"}}}
    queries = {"q": {"input": list(operators)[-1], "sink": {"topic": "u"}}}
    spec = interpret({"name": "job", "sources": sources, "operators": operators, "queries": queries})
    assert patience_s(on_spark(spec)) == seconds


def test_a_job_that_has_failed_can_be_cancelled_and_cannot_be_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its status says so again while it is being cancelled."""
    line = JobLine("job", "0-abcdef", "failed", 2, 0)
    failed = Status("job", "0-abcdef", "failed", 0, error="division by zero")
    ended = Ended(job="job", generation="0-abcdef", id=Id("c", 1), prev=Id("c", 0), reason="cancelled", records=7)
    monkeypatch.setattr(Watch, "records", lambda self, timeout_s: iter([failed, ended]))
    log = Answering()
    assert command(door(log), "cancel", line, 30).records == 7
    with pytest.raises(CommandFailed, match="job job failed: division by zero") as refused:
        command(door(log), "drain", line, 30)
    assert refused.value.hint == "`holdfast cancel job` ends it"
