"""A command waits for a Kafka that is slow, not for ever, and says what it waited for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from holdfast.services.cli.whereabouts import _listed
from holdfast.services.kernel.errors import CommandFailed, Retriable
from holdfast.services.log.kafka.waiting_log import WaitingLog
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.patience import Patience
from holdfast.services.view.door import Whereabouts

WHERE = Whereabouts(Path(), "kafka:9092", "holdfast", local=False)
LIMIT_S = 15.0


class Slow(MemoryLog):
    """Lists its topics at the n-th try, each of which takes 4 s."""

    def __init__(self, tries: int) -> None:
        super().__init__(lambda: 0)
        self.left, self.now_s = tries, 0.0

    def topics(self, needed: Iterable[str] = ()) -> dict[str, int]:
        self.left -= 1
        self.now_s += 4.0
        if self.left > 0:
            raise Retriable("cannot list topics: timed out")
        return {"t": 1}


def listed(tries: int) -> dict[str, int]:
    log = Slow(tries)
    return _listed(WaitingLog(log, Patience(LIMIT_S, lambda _: None, lambda: log.now_s, lambda _: None)), WHERE, ())


def test_an_overloaded_kafka_gets_the_time_that_it_needs() -> None:
    assert listed(1) == listed(4) == {"t": 1}


def test_a_broker_that_never_answers_is_given_up_with_the_reason_and_a_hint() -> None:
    with pytest.raises(CommandFailed) as failed:
        listed(100)
    said = "Kafka at kafka:9092 does not list its topics: gave up after 15 s of waiting for Kafka to list its topics: "
    assert failed.value.message.startswith(said)
    assert "overloaded" in failed.value.hint
