"""Whatever stalls, dies, returns or is asked for in whatever order: the invariants hold, and units are protected again.

The world checks every record as it is appended: exactly one copy commits, no two share a worker, flags are known.
"""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.schemas.assignments import Change
from holdfast.services.recovery.core import recovery
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES
from tests.support.examples import examples
from tests.unit.recovery.workers import NEW, OLD, OTHER, Worker
from tests.unit.recovery.world import World, plan

pytestmark = pytest.mark.slow

NAMES = ("w1", "w2", "w3", "w4")
FAULTS = ("kill", "kill silently", "restart", "stall", "wake", "cut off", "reconnect", "slow", "fast", "leave")
LATER = ("w3", "w4")
"""Those that may get other versions: else nobody might be left who may lead."""

faults = st.tuples(st.sampled_from(FAULTS), st.sampled_from(NAMES))
asked = st.tuples(st.just("ask"), st.sampled_from(list(SCHEMES)))
moved = st.tuples(st.just("move"), st.sampled_from(NAMES))
backed = st.tuples(st.just("back"), st.sampled_from(NAMES))
broker = st.tuples(st.just("broker"), st.sampled_from(["down", "up"]))
deaf = st.tuples(st.sampled_from(["deafen first", "deafen second"]), st.sampled_from(NAMES))
replicas = st.tuples(st.just("replica"), st.sampled_from(["late", "new"]))
versions = st.tuples(st.sampled_from(["upgrade", "spoil"]), st.sampled_from(LATER))
events = st.one_of(faults, faults, faults, asked, moved, backed, broker, deaf, replicas, versions)
pauses = st.sampled_from([0.0, 0.01, 0.05, 0.15, 0.4, 1.5, 4.0])


def cause(world: World, what: str, whom: str) -> None:
    worker = world.workers.get(whom)
    match what:
        case "kill" | "kill silently":
            world.kill(whom, notice=what == "kill")
        case "restart":
            world.kill(whom)
            world.restart(whom)
        case "ask":
            world.ask(whom)
        case "move":
            world.move(whom)
        case "back":
            world.back(whom)
        case "leave":
            world.leave(whom)
        case "upgrade" | "spoil":
            world.upgrade(whom, NEW if what == "upgrade" else OTHER)
        case "broker":
            world.broker_up = whom == "up"
        case "deafen first":
            world.replicas[0].deaf = frozenset({whom})
        case "deafen second":
            world.replicas[1].deaf = frozenset({whom})
        case "replica":
            if whom == "new" and len(world.replicas) < 4:
                world.add_replica()
            world.replicas[0].late_us = 300_000 if whom == "late" else 0
        case _:
            assert worker is not None
            if what in ("stall", "wake"):
                worker.stalled = what == "stall"
            elif what in ("cut off", "reconnect"):
                worker.hears = what == "reconnect"
            else:
                worker.slow = what == "slow"


def only_shown_lead(world: World, change: Change) -> None:
    """Of the worker's incarnation that the record names, which may be gone."""
    leader = change.committer
    if leader is not None and (version := world.versions[leader.worker, leader.incarnation]) != OLD:
        assert version == NEW, world.story[-1]
        assert f"polars {NEW}" in change.shown, world.story[-1]


@examples(each_run=15, with_long=150)
@given(
    st.lists(st.sampled_from(list(SCHEMES)), min_size=1, max_size=2),
    st.lists(st.tuples(events, pauses), max_size=12),
    st.sampled_from([None, 300_000]),
    st.sampled_from([1, 2, 9]),
    st.sampled_from([1, recovery.AT_ONCE]),
)
@example(["none"], [(("move", "w2"), 0.01), (("move", "w1"), 0.0)], None, 9, 1)
def test_faults_ended_every_unit_is_protected_again(
    schemes: list[str], course: list[tuple[tuple[str, str], float]], calm_us: int | None, together: int, at_once: int
) -> None:
    """PROTOCOL 14.8. together: so many workers that fail are an incident. at_once: units that a turn looks at."""
    with mock.patch.object(recovery, "AT_ONCE", at_once):
        _recovers(schemes, course, calm_us, together)


def _recovers(
    schemes: list[str], course: list[tuple[tuple[str, str], float]], calm_us: int | None, together: int
) -> None:
    units = {f"u-{index}": scheme for index, scheme in enumerate(schemes)}
    made = plan(units, correlated_failure={"workers": together})
    workers = [Worker(name, zone) for name, zone in zip(NAMES, ("x", "x", "y", "z"), strict=True)]
    world = World(*workers, made=made, replicas=2, calm_us=calm_us).start()
    world.watchers.append(lambda before, after: only_shown_lead(world, after))
    for (what, whom), pause_s in course:
        cause(world, what, whom)
        world.run(pause_s)
    world.heal().settle()
    stories = [replica.core.reading.story for replica in world.replicas]
    assert all(story == stories[0] for story in stories)
    for unit in world.units:
        epochs = [change.epoch for change in world.history if change.unit == unit]
        assert epochs == list(range(1, len(epochs) + 1))
    if calm_us is not None:
        world.run(8).settle()
    world.rest()
    last = {unit: world.change(unit).epoch for unit in world.units}
    world.run(2)
    assert last == {unit: world.change(unit).epoch for unit in world.units}, "a settled cluster stays as it is"
