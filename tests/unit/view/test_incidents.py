"""`holdfast explain JOB --incident`: the plan, each query's density, and what waits for what."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.services.cli.explanations import _draw_incident
from holdfast.services.view.incidents import IncidentLine, incident_line
from holdfast.services.view.lines import CopyLine, UnitLine
from tests.unit.recovery.hashtags import arrive, hashtags, incident, key, kill_eight, ten_workers
from tests.unit.recovery.world import World


def found(world: World) -> IncidentLine:
    """As the view folds it from the same logs."""

    def line(name: str) -> UnitLine:
        worker = world.workers[world.leader_of(key(name))]
        copy = worker.copies.get(key(name))
        state = copy.state if worker.alive and copy is not None else "down"
        return UnitLine(name, (), "passive", 1, (CopyLine(worker.name, "primary", {}, 1, state, "1"),))

    return incident_line(world.plan, incident(world), [line(unit.name) for unit in world.plan.units])


def test_an_incident_says_what_runs_what_is_restored_and_what_waits_for_what() -> None:
    world = kill_eight(ten_workers(hashtags({"o3": 5})))
    before = found(world)
    assert (before.state, before.order, before.slots, len(before.units)) == ("planned", (), 0, 15)
    assert {one.query: one.state for one in before.queries} == {f"o{number}": "waiting" for number in range(15)}
    after = {one.query: one for one in found(arrive(world, "r0")).queries}
    assert (after["o3"].state, after["o3"].priority, after["o3"].density) == ("runs", 5, 40.0)
    assert (after["o4"].state, after["o4"].waiting) == ("waiting", ("o1", "o4")), "o0, which it needs, runs"
    assert msgspec.json.encode(found(world))


def test_an_incident_that_is_over_is_said_to_be() -> None:
    world = kill_eight(ten_workers(hashtags()))
    assert found(arrive(world, *(f"r{number}" for number in range(8)))).state == "over"


def test_the_view_is_drawn_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    world = kill_eight(ten_workers(hashtags()))
    _draw_incident(found(arrive(world, "r0")))
    shown = capsys.readouterr().out
    assert "2 free slots; restored in this order: o0 o1" in shown
    assert "15 units to restore, as slots are free, each at its own newest checkpoint" in shown
    _draw_incident(found(arrive(world, *(f"s{number}" for number in range(8)))))
    assert "over" in capsys.readouterr().out
