"""The schemes are those of MECHANISMS section 4, and any of them changes to any other in the safe order (A1)."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.schemas.assignments import Change, Flags
from holdfast.schemas.heartbeats import CopyState
from holdfast.services.kernel.plans.pinning import Pin
from holdfast.services.recovery.core.unit.facts.changing import NEAR, STEPS, Gate, Step, caught_up
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES, Rung
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from holdfast.services.recovery.core.unit.facts.terms import Asked, Terms, terms
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import UNIT, World, plan

NAMES = list(SCHEMES)

TABLE = """
    scheme              deployed state   process receive send target
    none                no       -       -       -       -    -
    passive             no       -       -       -       -    -
    deployed            yes      virgin  off     off     off  off
    passive-cold        yes      synced  off     off     off  on
    passive-hot         yes      synced  off     on      off  on
    hybrid              yes      synced  off     on      off  on
    active-standby      yes      live    on      on      off  off
    active-replication  yes      live    on      on      on   off
"""
"""MECHANISMS section 4; hybrid and none: PROTOCOL 8."""


def row(line: str) -> Flags | None:
    _, deployed, state, *switches = line.split()
    if deployed == "no":
        return None
    process, receive, send, target = (switch == "on" for switch in switches)
    return Flags(state, receive, process, send, commit=False, checkpoint_target=target)


def test_the_schemes_are_those_of_the_paper() -> None:
    lines = TABLE.strip().splitlines()[1:]
    assert {line.split()[0]: row(line) for line in lines} == {name: s.secondary.value for name, s in SCHEMES.items()}


def test_hybrid_acts_on_one_miss_and_passive_standby_on_three() -> None:
    """MECHANISMS H7."""
    misses = {name: scheme.misses for name, scheme in SCHEMES.items()}
    assert misses == {
        "none": None,
        "passive": 3,
        "deployed": 3,
        "passive-cold": 3,
        "passive-hot": 3,
        "hybrid": 1,
        "active-standby": 1,
        "active-replication": 1,
    }


@pytest.mark.parametrize(
    ("way", "steps"),
    [
        ((Rung.ABSENT, Rung.HOT), [Step(None, Rung.HOT)]),
        ((Rung.ABSENT, Rung.ACTIVE), [Step(None, Rung.CATCHING), Step(Gate.CAUGHT_UP, Rung.ACTIVE)]),
        ((Rung.HOT, Rung.STANDBY), [Step(None, Rung.CATCHING), Step(Gate.CAUGHT_UP, Rung.STANDBY)]),
        ((Rung.STANDBY, Rung.ACTIVE), [Step(Gate.CAUGHT_UP, Rung.ACTIVE)]),
        ((Rung.ACTIVE, Rung.COLD), [Step(None, Rung.COVERED), Step(Gate.DURABLE, Rung.COLD)]),
        ((Rung.ACTIVE, Rung.ABSENT), [Step(None, Rung.COVERED), Step(Gate.DURABLE, Rung.ABSENT)]),
        ((Rung.STANDBY, Rung.EMPTY), [Step(None, Rung.CATCHING), Step(Gate.DURABLE, Rung.EMPTY)]),
        ((Rung.HOT, Rung.ABSENT), [Step(None, Rung.ABSENT)]),
        (
            (Rung.ACTIVE, Rung.STANDBY),
            [Step(None, Rung.COVERED), Step(Gate.DURABLE, Rung.CATCHING), Step(Gate.CAUGHT_UP, Rung.STANDBY)],
        ),
    ],
    ids=lambda value: "-".join(rung.name.lower() for rung in value) if isinstance(value, tuple) else "",
)
def test_each_way_waits_where_two_copies_must_agree_and_nowhere_else(way: tuple[Rung, Rung], steps: list[Step]) -> None:
    rung, target = way
    found = []
    while rung is not target:
        found.append(STEPS[rung, target])
        rung = found[-1].rung
    assert found == steps


@pytest.mark.parametrize(
    ("state", "epoch", "batch", "reached"),
    [
        ("running", 7, 98, True),
        ("running", 7, 97, False),
        ("running", 6, 100, False),
        ("synced", 7, 100, False),
    ],
)
def test_a_copy_has_caught_up_if_it_processes_and_knows_the_record_and_is_within_two_batches(
    state: str, epoch: int, batch: int, reached: bool
) -> None:
    """PROTOCOL 8."""
    leader = CopyState("u", 7, "running", 100)
    assert caught_up(CopyState("u", epoch, state, batch), leader, 7) == reached
    assert not caught_up(None, leader, 7)
    assert not caught_up(CopyState("u", epoch, state, batch), None, 7)


def test_settings_of_failures_that_a_job_leaves_out_are_the_papers() -> None:
    """MECHANISMS H5, H7; an adaptive unit asks for no scheme of its own."""
    made = msgspec.structs.replace(plan({"u-0": "hybrid", "u-1": "adaptive", "u-2": "other"}), spec={})
    found = terms(made)
    assert found[UNIT] == Terms(Asked("hybrid", 3), None, 30_000_000, True, pin=Pin(planned="polars 1"))
    assert [terms(made)[UNIT].misses_of(name) for name in ("hybrid", "passive-hot", "none")] == [1, 3, None]
    assert found[UNIT.replace("u-0", "u-1")].asked == Asked("adaptive", 3)
    assert found[UNIT.replace("u-0", "u-2")].asked.scheme == "none"


class SafeOrder:
    """Holds a change of scheme to the conditions of MECHANISMS A1, by what copies really reached, not by reports."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.covered_at: int | None = None
        world.watchers.append(self)

    def __call__(self, before: Change | None, after: Change) -> None:
        if before is None or stance(before) is not Stance.NORMAL or before.copies[0].worker != after.copies[0].worker:
            return
        was, now = before.copies[1].flags, after.copies[1].flags if len(after.copies) == 2 else None
        shared = self.world.shared[UNIT]
        if was.state == "live" and (now is None or (was.send and not now.send) or (was.process and not now.process)):
            assert self.covered_at is not None, "it stopped before checkpoints covered it"
            assert shared.durable >= self.covered_at, "it stopped before a checkpoint was durable"
        if now is not None and now.send and not was.send:
            copy = self.world.workers[after.copies[1].worker].copies[UNIT]
            assert copy.batch >= shared.batch - NEAR - 1, "it sent before it had caught up"
        if now is not None and now.checkpoint_target and not was.checkpoint_target:
            self.covered_at = shared.batch


def start(scheme: str) -> World:
    workers = [Worker(f"w{number}", f"z{number}") for number in (1, 2, 3)]
    return World(*workers, made=plan({"u-0": scheme})).start().settle()


def holds(world: World, scheme: str) -> None:
    change = world.change()
    flags = change.copies[1].flags if len(change.copies) == 2 else None
    assert (change.scheme, flags) == (scheme, SCHEMES[scheme].secondary.value)


@pytest.mark.parametrize("after", NAMES)
@pytest.mark.parametrize("before", NAMES)
def test_any_scheme_changes_to_any_other_in_the_safe_order(before: str, after: str) -> None:
    world = start(before)
    holds(world, before)
    SafeOrder(world)
    epoch = world.change().epoch
    world.ask(after)
    world.settle()
    holds(world, after)
    assert world.leader_of() == "w1", "nothing failed, so nobody else took over"
    assert world.change().epoch - epoch <= 4
    again = world.change().epoch
    world.run(2)
    assert world.change().epoch == again, "a settled unit stays as it is"


@pytest.mark.parametrize("fault", ["kill primary", "kill secondary", "stall primary", "kill both"])
@pytest.mark.parametrize(("before", "after"), [(a, b) for a in NAMES for b in NAMES if a != b])
def test_a_change_is_completed_whatever_fails_in_its_middle(before: str, after: str, fault: str) -> None:
    world = start(before)
    world.ask(after)
    world.run(0.06)
    named = [copy.worker for copy in world.change().copies]
    for name in {"kill both": named, "kill secondary": named[1:]}.get(fault, named[:1]):
        world.stall(name) if fault.startswith("stall") else world.kill(name)
    world.run(1)
    world.heal().settle()
    holds(world, after)


@pytest.mark.parametrize("after", [name for name in NAMES if name != "hybrid"])
def test_a_change_asked_for_during_a_switch_leaves_the_charge_where_it_is(after: str) -> None:
    world = start("hybrid")
    world.stall("w1")
    world.until(Stance.SWITCHED)
    world.ask(after)
    world.run(0.1)
    assert world.leader_of() == "w2"
    world.heal().settle()
    holds(world, after)
    assert world.leader_of() == "w2"


def test_the_last_scheme_asked_for_counts_and_unknown_ones_do_not() -> None:
    world = start("hybrid")
    for scheme in ("active-replication", "deployed", "no-such"):
        world.ask(scheme)
    world.settle()
    holds(world, "deployed")
