"""Units of an incident that begin again at a global checkpoint: which, in which order, and on one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.schemas.assignments import Assignment, CheckpointPolicy, GlobalCheckpoint
from tests.unit.recovery.hashtags import (
    NEEDS,
    arrive,
    available,
    hashtags,
    incident,
    key,
    kill_eight,
    ten_workers,
)
from tests.unit.recovery.world import G, World


def aligned(buffering: str, **tolerance: Any) -> World:
    """Its newest global checkpoint is that of batch 20."""
    made = hashtags(buffering=buffering, checkpoint={"policy": "aligned"}, **tolerance)
    world = ten_workers(made)
    complete(world, 20)
    return world.run(0.2)


def complete(world: World, batch: int, line: int = 0) -> None:
    stated = Assignment("controller", 0, (), checkpoints=(GlobalCheckpoint("job", G, batch, 3, line),))
    world.checked.read(stated)
    world.log.append(stated)


def lines(world: World, units: Iterable[str]) -> set[tuple[int, int]]:
    return {(world.change(key(unit)).line, world.change(key(unit)).back) for unit in units}


def test_under_adaptive_buffering_units_begin_again_at_the_global_checkpoint_on_one_line() -> None:
    world = kill_eight(aligned("adaptive"))
    arrive(world, "r0")
    arrive(world, "r1")
    back = available(world)
    assert len(back) == 4
    assert lines(world, back) == {(1, 20)}
    assert lines(world, ["o14"]) == {(0, 0)}
    assert lines(world, ["source", "parser"]) == {(1, 20)}, "what they have sent since is trimmed"
    assert (incident(world).line, incident(world).blocking) == (1, False)
    assert incident(world).above == ("parser", "source")
    world.kill("r1")
    arrive(world, "r2")
    assert lines(world, back) == {(1, 20)}, "what has newly failed continues on the line"
    arrive(world, *(f"r{number}" for number in range(3, 9)))
    assert lines(world, NEEDS) == {(1, 20)}
    assert incident(world).over


def test_a_global_checkpoint_that_is_complete_meanwhile_is_where_the_others_begin() -> None:
    world = kill_eight(aligned("adaptive"))
    arrive(world, "r0")
    back = available(world)
    complete(world, 30, 1)
    arrive(world, *(f"r{number}" for number in range(1, 8)))
    assert lines(world, back) == {(1, 20)}
    assert lines(world, set(NEEDS) - set(back)) == {(1, 30)}


def test_under_source_buffering_nothing_is_restored_before_all_is() -> None:
    """The baseline: blocking recovery, which is 0 until the eighth worker."""
    world, stairs = kill_eight(aligned("source")), []
    for number in range(8):
        stairs.append(len(available(arrive(world, f"r{number}"))))
    assert stairs == [0] * 7 + [15]
    assert lines(world, NEEDS) == {(1, 20)}
    assert incident(world).over


def test_below_n_workers_adaptive_recovery_is_blocking_and_widens_once_there_are_n() -> None:
    world = aligned("adaptive")
    world.kill("w1")
    world.run(0.5)
    assert incident(world).blocking
    world.kill("w2")
    world.run(0.5)
    assert not incident(world).blocking
    assert incident(world).workers == ("w1", "w2")


def test_senders_to_a_unit_go_back_before_it_and_others_continue() -> None:
    """w3 has o4, which reads o0 and o1, and o5, which reads o0 and o2."""
    world = aligned("source")
    world.kill("w3")
    arrive(world, "r0")
    gone, above = ["o4", "o5"], ["o0", "o1", "o2", "parser", "source"]
    assert lines(world, [*gone, *above]) == {(1, 20)}
    assert lines(world, ["o3", *(f"o{n}" for n in range(6, 15))]) == {(0, 0)}
    order = [change.unit.rpartition("/")[2] for change in world.history if change.line == 1]
    for unit, senders in {"o4": ("o0", "o1"), "o5": ("o0", "o2"), "o0": ("parser",), "parser": ("source",)}.items():
        assert all(order.index(one) < order.index(unit) for one in senders), order
    assert incident(world).over


def test_senders_to_units_that_wait_for_a_slot_go_back_at_once_and_once() -> None:
    world = aligned("source")
    world.kill("w3")
    world.run(1.5)
    assert lines(world, ["o4", "o5"]) == {(0, 0)}
    assert lines(world, ["o0", "o1", "o2", "parser", "source"]) == {(1, 20)}
    world.kill("w4")
    arrive(world, "r0", "r1")
    assert lines(world, ["o4", "o5", "o6", "o7", "o3"]) == {(1, 20)}, "o7 reads o1 and o3"
    assert sum(change.unit == key("source") and change.line == 1 for change in world.history) == 1


def test_a_unit_that_has_ended_does_not_go_back() -> None:
    world = aligned("source")
    world.end(key("source"))
    world.run(0.5)
    world.kill("w3")
    arrive(world, "r0")
    assert lines(world, ["source"]) == {(0, 0)}
    assert lines(world, ["parser", "o4"]) == {(1, 20)}


def test_a_policy_that_changes_meanwhile_takes_nobody_back_any_more() -> None:
    """Each is restored at its own newest checkpoint, from where on all that it needs is kept."""
    world = aligned("source")
    world.kill("w3")
    world.run(0.02)
    sweep = CheckpointPolicy("job", G, 50, "sweep", 500, 0, 1_000, 10, 50)
    record = Assignment("controller", 0, (), policies=(sweep,))
    world.checked.read(record)
    world.log.append(record)
    arrive(world, "r0")
    assert available(world) == list(NEEDS)
    assert lines(world, ["o4", "o5"]) == {(0, 0)}
    assert incident(world).over


def test_a_unit_that_is_asked_to_go_back_takes_with_it_all_that_send_to_it() -> None:
    world = aligned("source")
    world.go_back(key("o4"))
    world.run(0.5)
    assert lines(world, ["source", "parser", "o0", "o1", "o4"]) == {(1, 20)}
    assert lines(world, ["o2", "o3", "o5", "o14"]) == {(0, 0)}
    order = [change.unit.rpartition("/")[2] for change in world.history if change.line == 1]
    assert order.index("source") < order.index("parser") < order.index("o0") < order.index("o4")


def test_under_another_policy_each_unit_begins_at_its_own_newest_checkpoint() -> None:
    world = kill_eight(ten_workers(hashtags(buffering="adaptive")))
    arrive(world, *(f"r{number}" for number in range(8)))
    assert len(available(world)) == 15
    assert lines(world, NEEDS) == {(0, 0)}
