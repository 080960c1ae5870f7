"""A replica that has more units than one turn looks at: each unit has its turn, those of a failed worker first."""

from __future__ import annotations

import pytest

from holdfast.schemas.assignments import unit_key
from holdfast.services.recovery.core import recovery
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import G, World, plan

NAMES = [f"u-{number}" for number in range(12)]
UNITS = [unit_key("job", G, name) for name in NAMES]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Two units at once."""
    monkeypatch.setattr(recovery, "AT_ONCE", 2)
    made = World(*(Worker(f"w{n}", slots=12) for n in range(4)), made=plan(dict.fromkeys(NAMES, "hybrid")), replicas=2)
    made.run(0.3)
    made.goal("run")
    return made.run(2).settle(60)


@pytest.mark.slow
@pytest.mark.parametrize("notice", [True, False])
def test_all_units_of_a_failed_worker_are_taken_over_and_protected_again(world: World, notice: bool) -> None:
    led = [unit for unit in UNITS if world.leader_of(unit) == "w1"]
    assert len(led) >= 2
    world.kill("w1", notice)
    world.run(0.5)
    assert all(world.leader_of(unit) != "w1" for unit in led)
    world.settle(30)


def test_units_on_workers_that_fell_silent_come_first_and_each_unit_has_its_turn_whatever_comes(world: World) -> None:
    core = world.replicas[0].core
    core._queue = {}
    assert len(core._portion(UNITS, ())) == 2
    here = {unit for unit in UNITS if any(copy.worker == "w1" for copy in world.change(unit).copies)}
    assert set(core._portion(UNITS, ("w1",))) <= here
    seen: set[str] = set()
    for _ in range(len(UNITS) // 2 + 1):
        seen |= set(core._portion(UNITS, ()))
    assert seen == set(UNITS)
    core._queue = {}
    assert core._portion(UNITS[:2], ()) == UNITS[:2]
    assert not core._queue
