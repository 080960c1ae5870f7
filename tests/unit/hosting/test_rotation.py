"""Heartbeats carry the costs of some copies at a time, so that a worker with many does not send larger ones."""

from __future__ import annotations

from holdfast.services.hosting.heartbeats import COSTS_MS, MOST_COSTS, Rotation

BEAT_MS = 100


def test_each_copy_has_its_turn_and_no_heartbeat_carries_many() -> None:
    rotation, sent = Rotation(), {f"job/u-{number}": 0 for number in range(100)}
    for beat in range(100):
        due = rotation.due(sent, beat * BEAT_MS)
        assert len(due) <= MOST_COSTS
        for unit in due:
            sent[unit] += 1
    assert set(sent.values()) == {4}, "in ten seconds at four a heartbeat"


def test_each_copy_is_reported_once_a_second() -> None:
    rotation = Rotation()
    beats = [beat for beat in range(25) if rotation.due(["u"], beat * BEAT_MS)]
    assert [beat * BEAT_MS for beat in beats] == [0, COSTS_MS, 2 * COSTS_MS]


def test_a_copy_that_is_new_is_reported_at_once_and_one_that_is_gone_is_not() -> None:
    rotation = Rotation()
    assert rotation.due(["a"], 0) == ["a"]
    assert rotation.due(["b"], 100) == ["b"]
    assert rotation.due(["a", "b"], 200) == ["a"], "it was away and is new again"
