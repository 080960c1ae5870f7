"""A cluster takes every row of the table of switching.py."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from holdfast.schemas.heartbeats import At, Exit
from holdfast.schemas.incidents import Incident
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from holdfast.services.recovery.core.unit.table.moves import Move
from holdfast.services.recovery.core.unit.table.signs import Sign
from holdfast.services.recovery.core.unit.table.switching import TRANSITIONS
from tests.unit.recovery import test_adaptive as adaptive
from tests.unit.recovery import test_replication as replication
from tests.unit.recovery.clusters import (
    behind,
    cluster,
    loaded,
    mixed,
    moving,
    moving_mixed,
    reassigning,
    shared,
    switched,
)
from tests.unit.recovery.workers import OTHER, Worker
from tests.unit.recovery.world import UNIT, G, World

T, S = Stance, Sign


def after(make: Callable[[], World], *faults: Callable[[World], None], seconds: float = 1.0) -> Callable[[], World]:
    def scenario() -> World:
        world = make()
        for fault in faults:
            fault(world)
        return world.run(seconds)

    return scenario


def kill(*names: str) -> Callable[[World], None]:
    def fault(world: World) -> None:
        for name in names:
            world.kill(name)

    return fault


def kill_unseen(*names: str) -> Callable[[World], None]:
    """While no replica runs: the next one finds them dead at once."""

    def fault(world: World) -> None:
        world.replicas[-1].alive = False
        kill(*names)(world)
        world.add_replica()

    return fault


def away(*names: str) -> Callable[[World], None]:
    """They end, and what their parents say is read before anything else happens."""

    def fault(world: World) -> None:
        kill(*names)(world)
        world.run(0.3)

    return fault


def stall(name: str) -> Callable[[World], None]:
    return lambda world: world.stall(name)


def wake(name: str) -> Callable[[World], None]:
    return lambda world: world.stall(name, False)


def restart(name: str) -> Callable[[World], None]:
    return lambda world: world.restart(name)


def stuck(name: str) -> Callable[[World], None]:
    """It answers, and its copies get nothing done."""
    return lambda world: setattr(world.workers[name], "slow", True)


def run(seconds: float) -> Callable[[World], None]:
    def wait(world: World) -> None:
        world.run(seconds)

    return wait


def hiccup(name: str) -> Callable[[World], None]:
    """Silent but for a single heartbeat."""

    def fault(world: World) -> None:
        world.publish(world.workers[name].beat(world))

    return fault


def leave(name: str) -> Callable[[World], None]:
    return lambda world: world.leave(name)


def move(worker: str) -> Callable[[World], None]:
    return lambda world: world.move(worker)


def widen(name: str) -> Callable[[World], None]:
    """It takes as many standbys as are given."""
    return lambda world: setattr(world.workers[name], "standbys", -1)


def back(worker: str) -> Callable[[World], None]:
    return lambda world: world.back(worker)


def accept(world: World) -> None:
    world.accept()


def ask(scheme: str) -> Callable[[World], None]:
    return lambda world: world.ask(scheme)


def go_back(world: World) -> None:
    world.go_back()


def drill(world: World) -> None:
    world.drill()


def grown() -> World:
    """An adaptive unit whose state was small enough for `passive`, and is no more."""
    load = adaptive.Load()
    world = adaptive.started(load=load).run(2 * adaptive.CHOSEN_S).settle()
    load.state_bytes = 4_000_000
    return world.run(adaptive.COOL_DOWN_S + 3)


def under(policy: str, scheme: str = "hybrid") -> World:
    """The job has this checkpoint policy."""
    return cluster(scheme, checkpoint={"policy": policy})


def unplaced() -> World:
    """No unit has ever had a place."""
    workers = [Worker(f"w{number}", f"z{number}") for number in (1, 2, 3)]
    return World(*workers).run(0.3)


def to_run(world: World) -> None:
    world.goal("run")


def to_stop(world: World) -> None:
    world.goal("stop", asked=11, reason="cancelled")


def rob(world: World) -> None:
    """Somebody takes the place of the unit from it."""
    last = world.change()
    world.append("stranger", [type(last)(last.unit, last.epoch + 1, reason="a mistake")])


def blame(world: World) -> None:
    """Three workers that nobody knows ended, one after the other, at a batch of the unit that is far ahead."""
    for number in "123":
        world.publish(Exit("w9", number, 0, 1, at=(At(UNIT, 1_000_000),)))


TOGETHER: dict[str, Any] = {"correlated_failure": {"workers": 1}}
"""One worker that fails is an incident."""

RETAINED: dict[str, Any] = {"buffering": "source", "checkpoint": {"policy": "aligned"}}


def needed_below(world: World) -> None:
    """A unit that needs what this one has sent has failed."""
    opened = Incident("job", G, 1, ("w9",), ("v-0",), line=1, above=("u-0",))
    world.append("recovery", (), incidents=(opened,))


ROWS: dict[tuple[Stance, Sign], Callable[[], World]] = {
    (T.UNPLACED, S.WANTED): after(unplaced, to_run),
    (T.UNPLACED, S.UNASKED): after(cluster, to_run, rob),
    (T.UNPLACED, S.UNWANTED): after(unplaced, to_stop),
    (T.ALONE, S.UNWANTED): after(lambda: cluster("passive"), to_stop),
    (T.NORMAL, S.UNWANTED): after(cluster, to_stop),
    (T.SWITCHED, S.UNWANTED): after(switched, to_stop),
    (T.MOVING, S.UNWANTED): after(moving, to_stop),
    (T.REASSIGNING, S.UNWANTED): after(reassigning, to_stop),
    (T.ALONE, S.DEADLY): after(lambda: cluster("passive"), blame),
    (T.NORMAL, S.DEADLY): after(cluster, blame),
    (T.SWITCHED, S.DEADLY): after(switched, blame),
    (T.MOVING, S.DEADLY): after(moving, blame),
    (T.REASSIGNING, S.DEADLY): after(reassigning, blame),
    (T.ALONE, S.TURN): after(lambda: cluster("passive", **TOGETHER), kill("w1")),
    (T.NORMAL, S.TURN): after(lambda: cluster(**TOGETHER), kill_unseen("w1", "w2")),
    (T.SWITCHED, S.TURN): after(lambda: switched(**TOGETHER), kill_unseen("w1", "w2")),
    (T.MOVING, S.TURN): after(
        lambda: moving(**TOGETHER), kill_unseen("w1", "w2", "w3"), wake("w1"), restart("w2"), seconds=2
    ),
    (T.REASSIGNING, S.TURN): after(
        lambda: reassigning(**TOGETHER), run(0.02), kill_unseen("w1", "w2", "w3"), restart("w2"), seconds=2
    ),
    (T.ALONE, S.PRIMARY_GONE): after(lambda: cluster("passive"), kill("w1")),
    (T.ALONE, S.PRIMARY_GIVEN_UP): after(lambda: cluster("passive"), stall("w1")),
    (T.ALONE, S.PRIMARY_LEAVING): after(lambda: cluster("none"), leave("w1")),
    (T.ALONE, S.MOVE_REFUSED): after(lambda: cluster("none"), move("w9"), seconds=3),
    (T.ALONE, S.MOVE_ASKED): after(lambda: cluster("none"), move("w2")),
    (T.ALONE, S.OVERFULL): after(lambda: loaded("none"), seconds=3),
    (T.ALONE, S.ANOTHER_SCHEME): cluster,
    (T.ALONE, S.TAKEN_ALONG): after(lambda: cluster("none", **RETAINED), needed_below),
    (T.NORMAL, S.TAKEN_ALONG): after(lambda: cluster(**RETAINED), needed_below),
    (T.SWITCHED, S.TAKEN_ALONG): after(lambda: switched(**RETAINED), needed_below),
    (T.MOVING, S.TAKEN_ALONG): after(lambda: moving(**RETAINED), needed_below),
    (T.REASSIGNING, S.TAKEN_ALONG): after(lambda: reassigning(**RETAINED), needed_below),
    (T.ALONE, S.ROLLBACK_REFUSED): after(lambda: cluster("none"), go_back),
    (T.ALONE, S.ROLLBACK_ASKED): after(lambda: under("aligned", "none"), go_back),
    (T.NORMAL, S.ROLLBACK_REFUSED): after(cluster, go_back),
    (T.NORMAL, S.ROLLBACK_ASKED): after(lambda: under("aligned"), go_back),
    (T.ALONE, S.UNFIT_ASKED): after(lambda: under("idle-minmax", "none"), ask("active-standby")),
    (T.ALONE, S.UNPROTECTED): cluster,
    (T.ALONE, S.DRILL_REFUSED): after(lambda: cluster("none"), drill, seconds=3),
    (T.ALONE, S.DRILL_ASKED): after(lambda: cluster("passive"), drill),
    (T.ALONE, S.CHOSEN): grown,
    (T.ALONE, S.PLANNED): after(lambda: replication.world(0.4, replicas=1), seconds=5),
    (T.NORMAL, S.DRILL_REFUSED): after(cluster, leave("w2"), leave("w3"), run(0.3), drill, seconds=3),
    (T.NORMAL, S.DRILL_ASKED): after(cluster, drill),
    (T.NORMAL, S.PLANNED): after(lambda: replication.world(0.4, replicas=1, base="hybrid"), seconds=6),
    (T.NORMAL, S.CHOSEN): after(adaptive.started, seconds=adaptive.CHOSEN_S),
    (T.NORMAL, S.BOTH_GONE): after(cluster, kill_unseen("w1", "w2")),
    (T.NORMAL, S.PRIMARY_GONE): after(cluster, kill("w1")),
    (T.ALONE, S.ACCEPTED): after(lambda: cluster("none"), away("w1"), accept),
    (T.NORMAL, S.ACCEPTED): after(mixed, accept),
    (T.SWITCHED, S.ACCEPTED): after(switched, accept),
    (T.MOVING, S.ACCEPTED): after(moving_mixed, accept),
    (T.REASSIGNING, S.ACCEPTED): after(reassigning, accept),
    (T.NORMAL, S.SHOWN_EQUAL): after(mixed, seconds=2),
    (T.NORMAL, S.NO_HEIR): after(mixed, away("w1"), restart("w3")),
    (T.NORMAL, S.SECONDARY_DIFFERS): after(lambda: mixed(OTHER, 0), seconds=2),
    (T.NORMAL, S.SECONDARY_GONE): after(cluster, kill("w2")),
    (T.NORMAL, S.PRIMARY_SILENT): after(cluster, stall("w1")),
    (T.NORMAL, S.PRIMARY_GIVEN_UP): after(lambda: cluster("active-standby"), stall("w1")),
    (T.NORMAL, S.ANOTHER_SCHEME): after(cluster, ask("passive-cold")),
    (T.NORMAL, S.UNFIT_ASKED): after(lambda: under("idle-minmax"), ask("active-replication")),
    (T.NORMAL, S.PRIMARY_LEAVING): after(cluster, leave("w1")),
    (T.NORMAL, S.MOVE_REFUSED): after(cluster, move("w9"), seconds=3),
    (T.NORMAL, S.MOVE_ASKED): after(cluster, move("w2")),
    (T.NORMAL, S.OVERFULL): after(lambda: loaded("hybrid"), seconds=3),
    (T.NORMAL, S.SECONDARY_UNWANTED): after(cluster, ask("none")),
    (T.NORMAL, S.STEP_DUE): after(cluster, ask("passive-cold")),
    (T.SWITCHED, S.BOTH_GONE): after(switched, kill_unseen("w1", "w2")),
    (T.SWITCHED, S.PRIMARY_GONE): after(switched, kill("w1")),
    (T.SWITCHED, S.SECONDARY_GONE): after(switched, kill("w2")),
    (T.SWITCHED, S.PRIMARY_LEAVING): after(switched, leave("w1"), hiccup("w1")),
    (T.SWITCHED, S.SECONDARY_SILENT): after(switched, wake("w1"), stall("w2")),
    (T.SWITCHED, S.ANOTHER_SCHEME): after(switched, ask("passive-hot")),
    (T.SWITCHED, S.PRIMARY_WELL): after(switched, wake("w1")),
    (T.SWITCHED, S.PRIMARY_UNSTEADY): after(behind, seconds=4),
    (T.MOVING, S.BOTH_GONE): after(moving, kill_unseen("w1", "w2", "w3"), wake("w1"), restart("w2")),
    (T.MOVING, S.PRIMARY_GONE): after(moving, kill("w1")),
    (T.MOVING, S.ARRIVING_GONE): after(moving, kill("w3")),
    (T.MOVING, S.SHOWN_EQUAL): after(moving_mixed, seconds=3),
    (T.MOVING, S.NO_HEIR): after(moving_mixed, kill("w1")),
    (T.MOVING, S.ARRIVING_DIFFERS): after(lambda: moving_mixed(OTHER), seconds=2),
    (T.MOVING, S.ARRIVED): after(cluster, move("w3")),
    (T.MOVING, S.ARRIVED_ALONE): after(lambda: cluster("none"), move("w3")),
    (T.MOVING, S.PRIMARY_SILENT): after(moving, stall("w1")),
    (T.MOVING, S.PRIMARY_GIVEN_UP): after(lambda: cluster("passive"), stuck("w2"), move("w2"), run(0.5), stall("w1")),
    (T.MOVING, S.MOVE_OVERDUE): after(moving, seconds=61),
    (T.NORMAL, S.STANDBY_ELSEWHERE): reassigning,
    (T.NORMAL, S.OUTRANKED): after(shared, ask("hybrid"), run(2), widen("w2")),
    (T.REASSIGNING, S.BOTH_GONE): after(reassigning, kill_unseen("w1", "w2", "w3"), restart("w2")),
    (T.REASSIGNING, S.PRIMARY_GONE): after(reassigning, kill("w1")),
    (T.REASSIGNING, S.SECONDARY_GONE): after(reassigning, kill("w2")),
    (T.REASSIGNING, S.PRIMARY_SILENT): after(reassigning, stall("w1")),
    (T.REASSIGNING, S.PRIMARY_GIVEN_UP): after(lambda: reassigning("passive-hot"), stall("w1")),
    (T.REASSIGNING, S.PRIMARY_LEAVING): after(reassigning, leave("w1")),
    (T.REASSIGNING, S.ANOTHER_SCHEME): after(reassigning, ask("passive-cold")),
    (T.REASSIGNING, S.STANDBY_LOST): after(reassigning, kill("w3")),
    (T.REASSIGNING, S.STANDBY_COMPLETE): after(cluster, back("w3")),
    (T.REASSIGNING, S.STANDBY_OVERDUE): after(reassigning, seconds=61),
}


def test_there_is_a_scenario_for_every_row() -> None:
    assert set(ROWS) == set(TRANSITIONS)


def test_every_move_is_made_by_some_row() -> None:
    assert {move for _, move in TRANSITIONS.values()} == set(Move)


def test_the_rows_of_a_stance_stand_in_the_order_in_which_signs_count() -> None:
    placed = [each for each in Stance if each is not Stance.UNPLACED]
    for_all = {sign for sign in Sign if all((each, sign) in TRANSITIONS for each in placed)}
    order = list(Sign).index
    for each in Stance:
        signs = [sign for where, sign in TRANSITIONS if where is each and sign not in for_all]
        assert signs == sorted(signs, key=order), each


@pytest.mark.parametrize(("before", "sign"), TRANSITIONS, ids=lambda value: value.name.lower())
def test_every_row_of_the_table_is_taken_and_the_unit_is_protected_again(before: Stance, sign: Sign) -> None:
    world = ROWS[before, sign]()
    leads_to, move = TRANSITIONS[before, sign]
    reason = f"{sign.value}: {move.value}"
    taken = [
        (stance(was), stance(change))
        for unit in world.units
        for was, change in pairwise([None, *(one for one in world.history if one.unit == unit)])
        if change is not None and change.reason.partition(" (")[0] == reason
    ]
    assert (before, leads_to) in taken, "\n".join(world.story)
    world.heal().settle()
