"""When adaptive units change their scheme, in a small cluster: MECHANISMS A4. To which: test_choosing.py."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs

from holdfast.schemas.assignments import Change
from holdfast.schemas.costs import Costs
from holdfast.services.recovery.core.adaptive.controller import PACE_US
from holdfast.services.recovery.core.adaptive.steadying import COOL_DOWNS
from holdfast.services.recovery.core.observed import SchemeAsked
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from holdfast.services.recovery.core.unit.table.reasons import chosen_for_promise
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import UNIT, World, plan

pytestmark = pytest.mark.slow

COOL_DOWN_S = 2.0
CHOSEN_S = COOL_DOWNS * COOL_DOWN_S + 1.5
"""After so long a scheme that has suited better all the time is taken."""


def costs(state_bytes: int = 0, unsaved: int = 50, rate: int = 1_000) -> Costs:
    """A unit whose restore reads a megabyte a second; its log holds four times the state."""
    return Costs(
        UNIT, inputs={"s": (rate, 100 * rate)}, unsaved=unsaved, processed=rate, process_ms=rate / 20, cpu_ms=rate / 10,
        captures=10, capture_ms=10.0, checkpoint_bytes=1_000, state_bytes=state_bytes, deploy_ms=300.0,
        restore_ms=100.0, restore_bytes=100_000, receive_ms=20.0, open_ms=10.0,
    )  # fmt: skip


class Load:
    """What copies measure. state_bytes: may grow."""

    def __init__(self, state_bytes: int = 0) -> None:
        self.state_bytes = state_bytes

    def __call__(self, unit: str, now_us: int, leads: bool) -> Costs:
        seconds = now_us // 1_000_000
        read = (30.0, 10) if seconds % 2 else (100.0, 100_000)
        whole = costs(self.state_bytes, rate=1_000 * seconds)
        return structs.replace(whole, unit=unit, leads=leads, restore_ms=read[0], restore_bytes=read[1])


def cluster(recovery_ms: int = 5_000, replicas: int = 1, load: Load | None = None, **tolerance: Any) -> World:
    made = plan({"u-0": "adaptive"}, recovery_time_ms=recovery_ms, cool_down_s=COOL_DOWN_S, **tolerance)
    world = World(*[Worker(f"w{n}", f"z{n}") for n in (1, 2, 3)], made=made, replicas=replicas)
    world.measured = load or Load()
    return world


def started(recovery_ms: int = 5_000, replicas: int = 1, load: Load | None = None, **tolerance: Any) -> World:
    world = cluster(recovery_ms, replicas, load, **tolerance)
    world.goal("run")
    return world.run(1.5).settle()


def chosen(world: World) -> list[str]:
    return [change.scheme for change in world.history if chosen_for_promise(change)]


def times_of_choices(world: World) -> list[float]:
    changes = [(record.time_ms, change) for record in world.log for change in record.changes]
    valid = {(change.epoch, change.scheme) for change in world.history if chosen_for_promise(change)}
    return [at / 1_000 for at, change in changes if (change.epoch, change.scheme) in valid]


def test_a_unit_begins_replicated_and_rests_then_takes_the_cheapest_scheme_that_keeps_the_promise() -> None:
    world = started()
    change = world.change()
    assert (change.scheme, change.adaptive, change.asked) == ("active-replication", True, 3)
    world.run(CHOSEN_S).settle()
    change = world.change()
    assert (change.scheme, change.adaptive, len(change.copies), change.asked) == ("passive", True, 1, 3)
    assert chosen(world) == ["passive"]
    again = change.epoch
    assert world.run(10).change().epoch == again, "it stays"


def test_a_promise_that_is_tight_keeps_it_at_what_is_fast() -> None:
    world = started(recovery_ms=200)
    world.run(COOL_DOWN_S + 8).settle()
    assert world.change().scheme in ("active-standby", "active-replication")
    assert not [scheme for scheme in chosen(world) if scheme.startswith("passive")]


def test_the_scheme_follows_the_size_of_the_state() -> None:
    """1.2 s for a small state; 4 MB of it make a log of 16 MB, that are read in 16 s."""
    load = Load()
    world = started(load=load).run(CHOSEN_S).settle()
    assert world.change().scheme == "passive"
    load.state_bytes = 4_000_000
    world.run(COOL_DOWN_S + 3).settle()
    assert world.change().scheme == "passive-cold"
    load.state_bytes = 0
    world.run(CHOSEN_S).settle()
    assert world.change().scheme == "passive"


def test_at_most_one_change_within_a_cool_down_whoever_makes_it() -> None:
    load = Load()
    world = started(replicas=3, load=load)
    for _ in range(4):
        for state_bytes in (4_000_000, 0):
            load.state_bytes = state_bytes
            world.run(3 * COOL_DOWN_S)
    times = times_of_choices(world)
    assert len(times) > 3
    assert min(b - a for a, b in pairwise(times)) >= COOL_DOWN_S


def test_the_choice_of_a_replica_begins_the_cool_down_of_the_others() -> None:
    """The promise breaks right after the first change: a replica that had not rested would go back at once."""
    load = Load()
    world = started(replicas=2, load=load)
    while not chosen(world):
        world.run(0.1)
    load.state_bytes = 4_000_000
    world.run(2 * COOL_DOWN_S)
    first, second = times_of_choices(world)
    assert COOL_DOWN_S <= second - first < COOL_DOWN_S + 1


def test_an_estimate_that_swings_changes_the_scheme_once() -> None:
    """The cheapest scheme keeps the promise in every other second: one that keeps it always is taken, and stays."""
    load = Load()
    world = started(replicas=2, load=load)
    for second in range(40):
        load.state_bytes = 4_000_000 * (second % 2)
        world.run(1)
    assert chosen(world) == ["passive-cold"]


def test_a_scheme_that_breaks_the_promise_is_left_as_soon_as_the_cool_down_is_over() -> None:
    load = Load()
    world = started(load=load).run(CHOSEN_S).settle().run(COOL_DOWN_S)
    assert chosen(world) == ["passive"]
    load.state_bytes = 4_000_000
    world.run(2).settle()
    assert chosen(world) == ["passive", "passive-cold"]


def test_several_replicas_decide_as_one() -> None:
    world = started(replicas=3)
    world.run(COOL_DOWN_S + 2).settle()
    assert chosen(world) == ["passive"]
    assert all(replica.core.known.assigned.units() == world.checked.units() for replica in world.replicas)


def test_nothing_changes_while_the_unit_is_switched() -> None:
    world = started(recovery_ms=700, load=Load(4_000_000)).run(CHOSEN_S).settle()
    world.ask("hybrid")
    world.settle()
    world.ask("adaptive")
    world.run(0.5).settle()
    world.stall(world.leader_of())
    world.until(Stance.SWITCHED)
    before = len(chosen(world))
    world.run(1.5)
    assert len(chosen(world)) == before
    world.heal().settle()


def watch(world: World, wrong: list[str]) -> None:
    def look(before: Change | None, after: Change) -> None:
        if chosen_for_promise(after) and (before is None or stance(before) not in (Stance.ALONE, Stance.NORMAL)):
            wrong.append(after.reason)

    world.watchers.append(look)


@pytest.mark.parametrize("fault", ["kill", "stall", "move", "leave"])
def test_nothing_changes_while_the_unit_moves_or_lacks_a_copy(fault: str) -> None:
    load = Load(4_000_000)
    world = started(recovery_ms=900, load=load).run(CHOSEN_S).settle()
    wrong: list[str] = []
    watch(world, wrong)
    for _ in range(3):
        leader = world.leader_of()
        other = next(name for name in world.workers if name != leader)
        if fault == "move":
            world.move(other)
        else:
            getattr(world, fault)(leader)
        load.state_bytes = 4_000_000 - load.state_bytes
        world.run(CHOSEN_S).heal().settle().run(1)
    assert not wrong


def test_a_users_command_ends_it_and_another_one_begins_it_again() -> None:
    world = started().run(CHOSEN_S).settle()
    world.ask("hybrid")
    world.run(0.1)
    assert (world.change().scheme, world.change().adaptive) == ("hybrid", False)
    world.settle().run(COOL_DOWN_S + 3)
    assert world.change().scheme == "hybrid"
    world.ask("adaptive")
    world.run(0.1)
    assert (world.change().scheme, world.change().adaptive) == ("hybrid", True), "it keeps what it has, at first"
    world.settle().run(COOL_DOWN_S + 2).settle()
    assert world.change().scheme == "passive"


def test_a_user_who_asks_for_what_it_has_ends_it_too() -> None:
    world = started().run(CHOSEN_S).settle()
    world.ask("passive")
    world.run(0.1)
    assert (world.change().scheme, world.change().adaptive, world.change().asked) == ("passive", False, 10)
    world.measured = Load(4_000_000)
    world.run(COOL_DOWN_S + 3)
    assert world.change().scheme == "passive"


def test_a_command_beats_the_record_of_a_controller_that_had_not_seen_it() -> None:
    """One replica reads the command late, and its record is valid first: the others undo it."""
    world = started(replicas=2)
    world.replicas[0].alive = False
    world.run(CHOSEN_S)
    assert world.change().scheme == "passive", "the other one has not seen the command"
    world.replicas[0].alive = True
    asked = SchemeAsked(UNIT, "active-replication", 50)
    world.asked.append(asked)
    for replica in world.replicas:
        world._observe(replica, asked)
    world.settle()
    change = world.change()
    assert (change.scheme, change.adaptive, change.asked) == ("active-replication", False, 50)
    epoch = change.epoch
    assert world.run(COOL_DOWN_S + 3).change().epoch == epoch


def test_a_replica_that_starts_late_waits_for_a_cool_down() -> None:
    world = started().run(CHOSEN_S).settle()
    world.replicas[0].alive = False
    world.measured = Load(4_000_000)
    world.add_replica()
    began_us = world.now_us
    world.run(COOL_DOWN_S - 0.5)
    assert chosen(world) == ["passive"]
    world.run(3).settle()
    assert chosen(world) == ["passive", "passive-cold"]
    assert times_of_choices(world)[-1] >= began_us / 1_000_000 + COOL_DOWN_S


def test_without_measurements_nothing_changes() -> None:
    world = cluster()
    world.measured = None
    world.goal("run")
    world.run(1.5).settle().run(COOL_DOWN_S + 5)
    assert (world.change().scheme, chosen(world)) == ("active-replication", [])


def test_measurements_of_the_former_leader_decide_nothing() -> None:
    load = Load()
    world = started(load=load)
    world.kill("w1")
    world.measured = None
    world.run(1).heal().settle().run(COOL_DOWN_S + 2)
    assert chosen(world) == []
    world.measured = load
    world.run(CHOSEN_S)
    assert chosen(world) == ["passive"]


def test_weights_of_the_job_count() -> None:
    world = started(recovery_ms=330, load=Load(), weights={"cpu": 0, "memory": 0, "network": 0, "workers": 1})
    world.run(COOL_DOWN_S + 4).settle()
    assert world.change().scheme == "active-replication", "every secondary is one worker: the shortest recovery counts"


def test_a_verdict_has_every_scheme_and_stays_for_the_event() -> None:
    world = started().run(CHOSEN_S)
    verdict = world.replicas[0].core.known.adaptive.verdicts[UNIT]
    assert verdict.chosen == "passive"
    assert {one.scheme for one in verdict.estimates} >= {"none", "hybrid", "deployed", "active-standby"}
    (reason,) = [change.reason for change in world.history if chosen_for_promise(change)]
    assert reason.startswith("another scheme suits the promise better: the change begins (passive takes ")


def test_recovery_looks_at_schemes_every_half_second() -> None:
    world = started()
    core = world.replicas[0].core
    assert PACE_US == 500_000
    looked = set()
    for _ in range(100):
        world.run(0.05)
        looked.add(core.known.adaptive._looked_us)
    times = sorted(looked)
    assert all(PACE_US <= b - a < PACE_US + 100_000 for a, b in pairwise(times))
