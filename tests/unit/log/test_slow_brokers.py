"""Requests to brokers that are slow: how long the client waits for an answer before it asks again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.schemas.topics import ClusterTopics
from holdfast.services.kernel.errors import Forbidden, Retriable
from holdfast.services.log.answers import Moved
from holdfast.services.log.kafka import first_answers
from holdfast.services.log.kafka import requests as kafka_requests
from holdfast.services.log.kafka.client import ANSWER_S
from holdfast.services.log.kafka.first_answers import START_S, await_answers
from holdfast.services.log.kafka.requests import FIRST_PATIENCE_S, Requests
from holdfast.services.log.protocol import Log


class Slow(Requests):
    """Every request takes so long, on a clock of its own, and is given up when the time for it is over."""

    def __init__(self, offsets_s: float, metadata_s: float) -> None:
        self.offsets_s, self.metadata_s, self.now_s = offsets_s, metadata_s, 0.0
        self.waited_s: list[float] = []
        self._pace_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def ask(self, left_s: float) -> int:
        self.waited_s.append(left_s)
        self._take(self.offsets_s, left_s)
        return 7

    def metadata(self, timeout_s: float = ANSWER_S) -> dict[str, object]:
        self._take(self.metadata_s, timeout_s)
        return {}

    def _take(self, needs_s: float, left_s: float) -> None:
        self.now_s += min(needs_s, left_s)
        if needs_s > left_s:
            raise Moved("no answer")


def slow(monkeypatch: pytest.MonkeyPatch, offsets_s: float, metadata_s: float) -> Slow:
    made = Slow(offsets_s, metadata_s)
    monkeypatch.setattr(kafka_requests, "time", made)
    return made


@pytest.mark.parametrize("needs_s", [0.2, 1.0, 2.0, 3.5])
def test_an_answer_that_takes_long_comes_as_soon_as_it_is_known_how_long_answers_take(
    monkeypatch: pytest.MonkeyPatch, needs_s: float
) -> None:
    requests, found = slow(monkeypatch, needs_s, needs_s), list[int]()
    while not found and requests.now_s <= 60:
        with suppress(Retriable):
            found.append(requests.follow(requests.ask))
    assert requests.now_s <= 20
    tries = len(requests.waited_s)
    assert requests.follow(requests.ask) == 7
    assert len(requests.waited_s) == tries + 1, "from then on at the first try"


def test_brokers_that_are_fast_again_are_soon_asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = slow(monkeypatch, 3.0, 3.0)
    for _ in range(4):
        with suppress(Retriable):
            requests.follow(requests.ask)
    requests.offsets_s = requests.metadata_s = 0.01
    for _ in range(8):
        requests.follow(requests.ask)
    assert requests.waited_s[-1] == FIRST_PATIENCE_S


def test_a_leader_that_is_away_makes_no_first_try_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = slow(monkeypatch, 60.0, 0.01)
    for _ in range(3):
        began_s, tries = requests.now_s, len(requests.waited_s)
        with pytest.raises(Moved):
            requests.follow(requests.ask)
        assert requests.waited_s[tries] == FIRST_PATIENCE_S
        assert requests.now_s - began_s <= 1.5 * ANSWER_S


def test_no_try_takes_longer_than_an_answer_may(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = slow(monkeypatch, 60.0, 60.0)
    for _ in range(6):
        with pytest.raises(Moved):
            requests.follow(requests.ask)
    assert max(requests.waited_s) == ANSWER_S


def starts(monkeypatch: pytest.MonkeyPatch, answer: Callable[[float], None]) -> float:
    """Seconds until a service has its first answers. answer: to a request at a time; it may raise."""
    clock = SimpleNamespace(now_s=0.0)

    def sleep(seconds: float) -> None:
        clock.now_s += seconds

    def offsets(*_: object) -> None:
        clock.now_s += 1.0
        answer(clock.now_s)

    monkeypatch.setattr(first_answers, "time", SimpleNamespace(monotonic=lambda: clock.now_s, sleep=sleep))
    try:
        await_answers(cast(Log, SimpleNamespace(offsets=offsets)), ClusterTopics())
    except Retriable:
        return -float(clock.now_s)
    return float(clock.now_s)


def test_a_service_that_starts_waits_for_the_first_answers_of_a_slow_kafka_and_not_for_rights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(error: type[Retriable], until_s: float) -> Callable[[float], None]:
        def answer(now_s: float) -> None:
            if now_s < until_s:
                raise error("no answer")

        return answer

    assert 10 <= starts(monkeypatch, refuse(Moved, 10)) < 12
    assert -START_S - 3 < starts(monkeypatch, refuse(Moved, 60)) < -START_S
    assert starts(monkeypatch, refuse(Forbidden, 60)) == -1
