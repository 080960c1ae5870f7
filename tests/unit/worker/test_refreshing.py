"""Between two sweeps a sleeping copy is refreshed where that writes hardly more, and not where it does."""

from __future__ import annotations

import pytest

from holdfast.services.worker.checkpoint.policies.refresh import (
    FREE_REPEATED,
    MAX_KEYS,
    MIN_BATCHES,
    REFRESH_MS,
    REST_SWEEPS,
    Refreshing,
)


def keys(first: int, last: int) -> set[bytes]:
    return {b"%d" % number for number in range(first, last)}


def due(refreshing: Refreshing, changed: int = 100) -> bool:
    return refreshing.wait_ms(MIN_BATCHES, REFRESH_MS, changed) == 0


@pytest.mark.parametrize(
    ("batches", "elapsed_ms", "changed", "expected"),
    [
        (MIN_BATCHES, REFRESH_MS, 0, True),
        (MIN_BATCHES, REFRESH_MS, MAX_KEYS, True),
        (MIN_BATCHES, REFRESH_MS, MAX_KEYS + 1, False),
        (MIN_BATCHES - 1, REFRESH_MS, 0, False),
        (MIN_BATCHES, REFRESH_MS - 1, 0, False),
    ],
)
def test_a_refresh_is_due_when_some_batches_came_and_few_keys_changed(
    batches: int, elapsed_ms: float, changed: int, expected: bool
) -> None:
    assert (Refreshing().wait_ms(batches, elapsed_ms, changed) == 0) is expected


def test_refreshing_continues_while_every_run_holds_other_keys() -> None:
    refreshing = Refreshing()
    for number in range(100):
        assert due(refreshing)
        refreshing.captured(keys(100 * number, 100 * number + 100), sweep=number % 5 == 4)


def test_keys_that_come_again_in_every_run_end_it_until_some_sweeps_have_passed() -> None:
    refreshing = Refreshing()
    refreshing.captured(keys(0, 100), sweep=False)
    assert due(refreshing)
    refreshing.captured(keys(10, 110), sweep=False)
    for _ in range(REST_SWEEPS):
        assert not due(refreshing)
        refreshing.captured(keys(0, 100), sweep=True)
    assert due(refreshing)


def test_a_few_keys_that_always_come_again_are_not_worth_a_thought() -> None:
    refreshing = Refreshing()
    for _ in range(10):
        refreshing.captured(keys(0, FREE_REPEATED), sweep=False)
        assert due(refreshing)


def test_keys_that_come_again_after_a_sweep_do_no_harm() -> None:
    refreshing = Refreshing()
    for _ in range(10):
        refreshing.captured(keys(0, 100), sweep=False)
        refreshing.captured(keys(100, 200), sweep=True)
        assert due(refreshing)


def test_remembered_history_is_bounded() -> None:
    refreshing = Refreshing()
    refreshing.captured(keys(0, MAX_KEYS), sweep=False)
    assert not due(refreshing, 1)
    refreshing.captured(keys(MAX_KEYS, MAX_KEYS + 1), sweep=True)
    assert due(refreshing, 1)
