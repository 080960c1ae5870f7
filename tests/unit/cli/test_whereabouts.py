"""A command waits for a Kafka that is slow, not for ever, and says what it waited for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from services.cli.whereabouts import LISTED_S, _listed
from services.kernel.errors import CommandFailed, Retriable
from services.log.memory import MemoryLog
from services.view.door import Whereabouts

WHERE = Whereabouts(Path(), "kafka:9092", "holdfast", local=False)


class Slow(MemoryLog):
    """Lists its topics at the n-th try."""

    def __init__(self, tries: int) -> None:
        super().__init__(lambda: 0)
        self.left = tries

    def topics(self, needed: Iterable[str] = ()) -> dict[str, int]:
        self.left -= 1
        if self.left > 0:
            raise Retriable("cannot list topics: timed out")
        return {"t": 1}


def clock(step_s: float) -> Iterator[float]:
    now_s = 0.0
    while True:
        yield now_s
        now_s += step_s


def listed(tries: int) -> dict[str, int]:
    """Each try takes 4 s."""
    times = clock(4.0)
    return _listed(Slow(tries), WHERE, (), lambda: next(times), lambda _: None)


def test_an_overloaded_kafka_gets_the_time_that_it_needs() -> None:
    assert listed(1) == listed(4) == {"t": 1}


def test_one_that_never_answers_is_given_up_with_the_reason_and_a_hint() -> None:
    with pytest.raises(CommandFailed) as failed:
        listed(100)
    said = f"Kafka at kafka:9092 has not listed its topics within {LISTED_S:g} s: cannot list topics: timed out"
    assert failed.value.message == said
    assert "overloaded" in failed.value.hint
