"""Units that go back to a global checkpoint: which one, on which line, and what is refused."""

from __future__ import annotations

import pytest

from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, GlobalCheckpoint
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.recovery.core.job.rollbacks import Rollbacks
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import UNIT, G, World, plan

SECOND = UNIT.replace("u-0", "v-0")


def aligned(scheme: str = "hybrid", **tolerance: object) -> World:
    """Two units, each with a primary and a secondary."""
    workers = [Worker(f"w{number}", f"z{number}") for number in (1, 2, 3)]
    made = plan({"u-0": scheme, "v-0": scheme}, **({"checkpoint": {"policy": "aligned"}} | tolerance))  # type: ignore[arg-type]
    return World(*workers, made=made).start().settle()


def complete(world: World, batch: int, line: int = 0) -> None:
    """A controller states it; replicas read it in their next turn."""
    record = Assignment("controller", 0, (), checkpoints=(GlobalCheckpoint("job", G, batch, 3, line),))
    world.checked.read(record)
    world.log.append(record)


def lines(world: World) -> list[tuple[int, int]]:
    return [(world.change(unit).line, world.change(unit).back) for unit in world.units]


def test_all_units_go_back_together_on_one_line_and_are_protected_again() -> None:
    world = aligned()
    complete(world, 10)
    world.run(0.2)
    world.go_back("")
    world.run(0.2)
    assert lines(world) == [(1, 10), (1, 10)]
    assert {copy.worker for copy in world.change().copies} == {"w1", "w2"}
    world.settle()
    world.go_back(SECOND)
    world.run(0.2)
    assert lines(world) == [(1, 10), (2, 10)]
    world.settle()


def test_a_rollback_that_another_global_checkpoint_overtakes_goes_to_that_one() -> None:
    """The record of the rollback names what is not the newest any more where it lies, so it is void."""
    world = aligned()
    complete(world, 10)
    world.run(0.2)
    complete(world, 20)
    world.go_back("")
    assert lines(world) == [(0, 0), (0, 0)]
    world.run(0.2)
    assert lines(world) == [(1, 20), (1, 20)]


def test_a_unit_that_is_placed_again_stays_on_its_line() -> None:
    world = aligned("passive")
    complete(world, 10)
    world.run(0.2)
    world.go_back(UNIT)
    world.run(0.2)
    world.kill("w1")
    world.settle()
    assert lines(world)[0] == (1, 10)
    assert world.change().epoch > 2


def test_a_switched_unit_goes_back_once_its_primary_leads_again() -> None:
    world = aligned()
    complete(world, 10)
    world.stall("w1")
    world.run(0.5)
    assert world.change().switched
    world.go_back(UNIT)
    world.run(0.3)
    assert lines(world)[0] == (0, 0)
    world.stall("w1", False)
    world.settle()
    world.run(0.5)
    assert lines(world)[0] == (1, 10)


def test_without_global_checkpoints_a_rollback_is_refused_once_with_the_reason() -> None:
    world = aligned(checkpoint={"policy": "sweep"})
    world.go_back(UNIT)
    world.run(0.5)
    change = world.change()
    assert (change.line, change.rolled) == (0, world.asked[-1].offset)
    assert "only under aligned" in change.reason
    epoch = change.epoch
    world.run(1.0)
    assert world.change().epoch == epoch


def test_a_replica_that_starts_later_does_not_roll_back_again() -> None:
    world = aligned()
    world.go_back("")
    world.run(0.3)
    world.add_replica()
    world.run(0.5)
    assert lines(world) == [(1, 0), (1, 0)]


# -- what sends to a unit goes back before it -------------------------------------------------------------------------


def decided(*changes: tuple[str, int, int, int], complete: tuple[int, int] = (10, 0)) -> Assigned:
    """Changes: unit, line, global checkpoint, command that was answered. complete: batch and line."""
    made = [
        Change(f"job@{G}/{unit}", 1, line=line, back=back, rolled=rolled, copies=(Copy("w1", "i", PRIMARY),))
        for unit, line, back, rolled in changes
    ]
    return Assigned(made, checkpoints=[GlobalCheckpoint("job", G, complete[0], 3, complete[1])])


@pytest.mark.parametrize(
    ("above", "complete", "ready", "late", "line"),
    [
        (("u-0", 0, 0, -1), (10, 0), False, False, 1),
        (("u-0", 1, 10, 7), (10, 0), True, False, 1),
        (("u-0", 1, 10, 7), (20, 1), False, True, 2),
        (("u-0", 1, 10, 6), (20, 1), False, False, 2),
        (("u-0", 2, 20, 6), (20, 1), True, False, 2),
    ],
)
def test_a_unit_goes_back_once_what_sends_to_it_has_gone_back_to_the_same(
    above: tuple[str, int, int, int], complete: tuple[int, int], ready: bool, late: bool, line: int
) -> None:
    """late: another global checkpoint is complete since then, so what was sent again may be trimmed."""
    rollbacks = Rollbacks()
    rollbacks.ask([SECOND], 7)
    back = rollbacks.of(SECOND, decided(above, ("v-0", 0, 0, -1), complete=complete), lambda: [UNIT])
    assert (back.ready, back.late, back.line) == (ready, late, line)
    assert rollbacks.of(SECOND, decided(above, ("v-0", 0, 0, -1), complete=complete)).ready
