"""Garbage is collected between turns, and only when there is some."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from holdfast.services.process import collector
from holdfast.services.process.collector import (
    LEFT_BUSY_S,
    LEFT_S,
    MANY_OBJECTS,
    OLDEST_BUSY_S,
    OLDEST_S,
    Collector,
)


@pytest.fixture(autouse=True)
def automatic() -> Iterator[None]:
    """Collection is Python's own business again afterwards."""
    yield
    gc.enable()


def test_a_turn_that_did_something_is_followed_by_a_pass_and_one_at_rest_is_not() -> None:
    passes: list[int] = []
    turns = Collector(passes.append, lambda: 0)
    assert not gc.isenabled(), "no pass comes in the middle of a turn"
    for worked in (True, False, False, True):
        turns.turned(worked)
    assert passes == [0, 0]


def test_objects_of_other_threads_are_collected_at_rest_too() -> None:
    passes: list[int] = []
    counted = [MANY_OBJECTS - 1]
    turns = Collector(passes.append, lambda: counted[0])
    turns.turned(False)
    counted[0] += 1
    turns.turned(False)
    assert passes == [0]


def test_objects_that_lived_through_a_pass_are_looked_through_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MIDDLE_EVERY", 3)
    passes: list[int] = []
    turns = Collector(passes.append, lambda: 0)
    for _ in range(7):
        turns.turned(True)
    assert passes == [0, 0, 1, 0, 0, 1, 0]


def test_old_objects_are_looked_through_at_a_rest_and_without_one_in_the_end() -> None:
    passes: list[int] = []
    now_s = [0.0]
    turns = Collector(passes.append, lambda: 0, lambda: now_s[0])
    for at_s, worked in (
        (OLDEST_S, True),
        (OLDEST_S, False),
        (2 * OLDEST_S - 1, False),
        (OLDEST_S + OLDEST_BUSY_S, True),
    ):
        now_s[0] = at_s
        turns.turned(worked)
    assert passes == [0, 2, 2]


@pytest.mark.parametrize(("worked", "limit_s"), [(False, LEFT_S), (True, LEFT_BUSY_S)])
def test_remains_of_a_closed_copy_are_collected_soon_and_once(worked: bool, limit_s: float) -> None:
    passes: list[int] = []
    now_s = [0.0]
    turns = Collector(passes.append, lambda: 0, lambda: now_s[0])
    turns.left()
    now_s[0] = limit_s / 2
    turns.left()
    turns.turned(worked)
    assert 2 not in passes
    for at_s in (limit_s, limit_s + 1):
        now_s[0] = at_s
        turns.turned(worked)
    assert passes.count(2) == 1


def test_a_ring_of_references_is_gone_after_the_turn_that_made_it() -> None:
    class Ring:
        pass

    turns = Collector()
    turns.turned(True)
    ring = Ring()
    ring.itself = ring  # type: ignore[attr-defined]
    del ring
    turns.turned(True)
    assert not any(isinstance(one, Ring) for one in gc.get_objects())
