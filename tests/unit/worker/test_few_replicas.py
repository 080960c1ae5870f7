"""A topic with too few replicas in sync is named while rows wait for it, whatever Kafka answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.schemas.topics import TopicSpec
from holdfast.services.kernel.errors import Indefinite, Retriable
from holdfast.services.log.kafka.cluster_seen import TRANSACTIONS
from holdfast.services.log.memory import MemoryTransactor
from holdfast.services.log.protocol import Described, Rows
from holdfast.services.worker.sinks.refusals import SAID_MS
from tests.unit.worker.test_too_large import TOPICS, Site


def reopen(site: Site, again: bool) -> None:
    """With the next producer. again: what fails is tried again at once."""
    site.again = again
    site.delivery.close()
    site.open()


class Unanswered(MemoryTransactor):
    def commit(self, rows: Sequence[Rows]) -> None:
        raise Retriable("there was no answer")


def test_a_topic_with_too_few_replicas_is_named_while_its_rows_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.log.create([TopicSpec("out")])
    site.log.configure([TopicSpec("out", 1, {"min.insync.replicas": "3"})])
    described = {"out": Described("id", 1, 2)}
    monkeypatch.setattr(site.log, "describe", lambda topics: described)
    monkeypatch.setattr(site.log, "transactor", lambda name, size=None: Unanswered(site.log, name))
    reopen(site, again=False)
    site.deliver(1, "a")
    site.now_ms = 2 * SAID_MS
    assert site.refusals.waits(site.now_ms) == (
        "no row was delivered for 6 s, in 1 attempt: topic out has 2 replicas in sync and takes rows from 3 on "
        "(its min.insync.replicas). Kafka's last answer: there was no answer"
    )
    monkeypatch.undo()
    reopen(site, again=True)
    site.deliver(1, "a")
    assert site.rows() == [b'{"t":"a"}']
    assert not site.refusals.shortage


class InDoubt(MemoryTransactor):
    def commit(self, rows: Sequence[Rows]) -> None:
        raise Indefinite("there was no answer for 6 s")


class NotStarted(MemoryTransactor):
    def start(self) -> None:
        raise Retriable("cannot start transactions: no answer for 10 s")


@pytest.mark.parametrize("fails", [Unanswered, InDoubt, NotStarted])
@pytest.mark.parametrize("lacking", ["out", TOPICS.delivered, TOPICS.dead_letters, TRANSACTIONS])
def test_a_topic_that_holds_a_commit_back_is_named(
    lacking: str, fails: type[MemoryTransactor], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site()
    site.log.create([TopicSpec(TRANSACTIONS)])
    site.log.configure([TopicSpec(lacking, 1, {"min.insync.replicas": "2"})])

    def describe(topics: Sequence[str]) -> dict[str, Described]:
        return {topic: Described("id", 1, 1 if topic == lacking else 3) for topic in topics}

    monkeypatch.setattr(site.log, "describe", describe)
    monkeypatch.setattr(site.log, "transactor", lambda name, size=None: fails(site.log, name))
    for _ in range(2):
        reopen(site, again=False)
        site.deliver(1, "a")
    site.now_ms = 2 * SAID_MS
    assert f"topic {lacking} has 1 replica in sync and takes rows from 2 on" in site.refusals.waits(site.now_ms)


def test_an_error_is_kept_while_kafka_does_not_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()

    def describe(topics: Sequence[str]) -> dict[str, Described]:
        raise Retriable("describe: no answer")

    monkeypatch.setattr(site.log, "describe", describe)
    monkeypatch.setattr(site.log, "transactor", lambda name, size=None: Unanswered(site.log, name))
    reopen(site, again=False)
    site.deliver(1, "a")
    assert [str(error) for error in site.errors] == ["there was no answer"]
