"""Every row of the table of switching.py, taken by a cluster, and the stories of MECHANISMS H3 word for word."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from holdfast.schemas.assignments import Copy
from holdfast.schemas.decided import Id
from holdfast.schemas.heartbeats import At, Exit
from holdfast.schemas.incidents import Incident
from holdfast.schemas.plans import Ended
from holdfast.services.recovery.core.observed import DecisionRead
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from holdfast.services.recovery.core.unit.table.moves import Move
from holdfast.services.recovery.core.unit.table.signs import Sign
from holdfast.services.recovery.core.unit.table.switching import TRANSITIONS
from tests.unit.recovery import test_adaptive as adaptive
from tests.unit.recovery import test_replication as replication
from tests.unit.recovery.golden import golden
from tests.unit.recovery.world import NEW, OTHER, UNIT, G, Worker, World, plan

T, S = Stance, Sign


def cluster(scheme: str = "hybrid", **tolerance: Any) -> World:
    """Three workers in three zones; the unit's primary on w1, its secondary, if any, on w2."""
    workers = [Worker(f"w{number}", f"z{number}") for number in (1, 2, 3)]
    return World(*workers, made=plan({"u-0": scheme}, **tolerance)).start().settle()


def switched(**tolerance: Any) -> World:
    world = cluster(**tolerance)
    world.stall("w1")
    return world.until(T.SWITCHED)


def behind(**tolerance: Any) -> World:
    """The primary answers, but has not caught up."""
    world = switched(**tolerance)
    world.workers["w1"].slow = True
    world.stall("w1", False)
    return world.run(0.5)


def moving(**tolerance: Any) -> World:
    """The new copy on w3 does not catch up."""
    world = cluster(**tolerance)
    world.workers["w3"].slow = True
    world.move("w3")
    return world.until(T.MOVING)


def shared() -> World:
    """The only place for a standby is taken; u-0 is more important, and has none yet."""
    workers = Worker("w1", "z1", standbys=0), Worker("w2", "z2", standbys=1)
    made = plan({"u-0": "none", "u-1": "hybrid"}, priorities={"u-0": 2, "u-1": 1})
    return World(*workers, made=made).start().settle()


def reassigning(scheme: str = "hybrid", **tolerance: Any) -> World:
    """The new standby on w3 does not get its operators loaded."""
    world = cluster(scheme, **tolerance)
    world.workers["w3"].loads = False
    world.back("w3")
    return world.until(T.REASSIGNING)


def mixed(version: str = NEW, seconds: float = 0.3) -> World:
    """The secondary is on w2, with other versions than the primary, and has yet to show what it gives; w3 is away."""
    world = cluster()
    world.kill("w3")
    world.upgrade("w2", version)
    return world.until(T.ALONE).until(T.NORMAL).run(seconds)


def moving_mixed(version: str = NEW) -> World:
    """The unit moves to w2, which has other versions."""
    world = cluster("none")
    world.upgrade("w2", version)
    world.run(0.3).move("w2")
    return world.until(T.MOVING)


def loaded(scheme: str) -> World:
    """Four units, all on w1, and balance is on."""
    workers = [Worker(f"w{number}", f"z{number}") for number in (1, 2, 3)]
    made = plan({f"u-{index}": scheme for index in range(4)}, rebalance_period_s=20)
    return World(*workers, made=made, calm_us=1_000_000).start().settle()


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


# -- MECHANISMS H3, word for word -------------------------------------------------------------------------------------


def story(world: World) -> list[str]:
    """Since the unit was protected first."""
    return world.story[3:]


def test_a_unit_is_protected_by_a_secondary_in_another_zone() -> None:
    assert cluster().story == golden("protected")


def test_a_silent_primary_is_switched_from_and_leads_again_once_it_is_well() -> None:
    world = switched()
    world.stall("w1", False)
    world.settle()
    assert world.story == golden("switched-and-back")


@pytest.mark.parametrize("calm_ms", [0, 400, 2_000])
def test_the_primary_leads_again_once_it_was_calm_for_as_long_as_the_job_says(calm_ms: int) -> None:
    world = switched(hybrid={"calm_ms": calm_ms})
    world.stall("w1", False)
    world.run(calm_ms / 1000)
    assert stance(world.change()) is T.SWITCHED
    world.run(0.6)  # three heartbeats that know of the switch, and a look
    assert (stance(world.change()), world.leader_of()) == (T.NORMAL, "w1")


def test_a_primary_that_flaps_is_switched_from_once_and_leads_again_once_it_is_calm() -> None:
    """It is silent for 1.2 s out of 1.6: without calm the unit would go to and fro as often."""
    world = switched(hybrid={"calm_ms": 1_000}, fail_stop_s=9.0)
    for _ in range(4):
        world.stall("w1", False)
        world.run(0.4)
        world.stall("w1")
        world.run(1.2)
    assert len(story(world)) == 1, world.story
    world.stall("w1", False)
    world.run(2.0)
    assert (stance(world.change()), world.leader_of()) == (T.NORMAL, "w1")


def test_a_secondary_that_is_silent_while_it_leads_works_on_until_the_primary_is_calm() -> None:
    world = switched(hybrid={"calm_ms": 1_000})
    world.stall("w1", False)
    world.run(0.4)
    world.stall("w2")
    world.run(0.6)
    world.stall("w2", False)
    world.settle()
    assert world.story == golden("silent-secondary-that-leads")


def test_copies_that_are_silent_by_turns_both_work_all_the_time() -> None:
    """A suspended copy would repeat what came since its image before it sends anything."""
    world = switched(hybrid={"calm_ms": 2_000}, fail_stop_s=9.0)
    for silent, other in [("w2", "w1"), ("w1", "w2")] * 3:
        world.stall(other, False)
        world.run(0.5)
        world.stall(silent)
        world.run(0.5)
        assert world.leader_of() == other
        assert all(copy.flags.process and copy.flags.send for copy in world.change().copies)


def test_a_primary_that_answers_but_does_not_catch_up_is_not_rolled_back_to() -> None:
    world = behind().run(1)
    assert stance(world.change()) is T.SWITCHED
    world.heal().settle()
    assert world.leader_of() == "w1"


def test_a_primary_that_is_not_well_past_the_fail_stop_time_out_has_changed_places() -> None:
    """What it would need is kept from the switch on: that must end."""
    world = behind().run(2.9)
    assert world.story == golden("changed-places")


def test_a_primary_of_a_former_version_that_is_suspended_while_switched_changes_places() -> None:
    """Records of before have no copy at work but the secondary."""
    world = switched()
    last = world.change()
    suspended = Copy(last.copies[0].worker, last.copies[0].incarnation, Rung.HOT.flags)
    world.append("recovery", [msgspec.structs.replace(last, epoch=last.epoch + 1, copies=(suspended, last.copies[1]))])
    world.stall("w1", False)
    world.run(4)
    assert (stance(world.change()), world.leader_of()) == (T.NORMAL, "w2")
    world.heal().settle()


def test_silent_past_the_fail_stop_time_out_the_secondary_is_promoted_and_a_new_one_started_elsewhere() -> None:
    world = switched().run(2.5)
    assert len(story(world)) == 1, "nothing before the time-out of 3 s"
    world.run(2.0)
    assert world.story == golden("promoted")


def test_the_secondary_dies_and_a_new_one_is_started() -> None:
    world = cluster()
    world.kill("w2")
    assert world.settle().story == golden("secondary-dies")


def test_a_takeover_is_over_before_a_new_secondary_costs_anybody_anything() -> None:
    world = cluster()
    world.kill("w1")
    world.until(T.ALONE).run(0.9)
    assert [copy.worker for copy in world.change().copies] == ["w2"]
    world.run(0.3)
    assert [copy.worker for copy in world.change().copies] == ["w2", "w3"]


def test_an_exit_notice_promotes_at_once() -> None:
    world = cluster()
    world.kill("w1")
    began_us = world.now_us
    world.run(0.02)
    assert world.leader_of() == "w2"
    assert world.now_us - began_us <= 20_000


def test_without_a_notice_the_first_missed_heartbeat_switches() -> None:
    world = cluster()
    while world.now_us % 100_000 != world.workers["w1"].phase_us:
        world.run(0.01)
    world.kill("w1", notice=False)
    world.run(0.12)
    assert world.leader_of() == "w1"
    world.run(0.04)
    assert world.leader_of() == "w2"


def test_both_copies_killed_together_are_placed_again_from_the_checkpoint_log() -> None:
    world = cluster()
    world.kill("w1")
    world.kill("w2")
    world.run(0.1)
    assert world.story == golden("both-killed")[:5]
    world.restart("w2")
    world.settle()
    assert world.story == golden("both-killed")


def test_all_workers_die_and_the_unit_is_placed_when_one_returns() -> None:
    world = cluster()
    for name in ("w1", "w2", "w3"):
        world.kill(name)
    world.run(5)
    waiting = len(story(world))
    world.run(5)
    assert len(story(world)) == waiting, "nothing is done while nobody is there"
    world.restart("w3")
    world.run(1)
    assert world.leader_of() == "w3"
    world.restart("w1")
    world.settle()


def test_the_new_incarnation_of_the_dead_primary_becomes_the_secondary_of_its_successor() -> None:
    workers = Worker("w1"), Worker("w2")
    world = World(*workers).start().settle()
    world.kill("w1")
    world.run(0.5)
    world.restart("w1")
    world.settle()
    assert [(copy.worker, copy.incarnation) for copy in world.change().copies] == [("w2", "1"), ("w1", "2")]


def test_a_new_incarnation_alone_says_that_the_old_one_is_gone() -> None:
    world = cluster()
    world.kill("w1", notice=False)
    world.restart("w1")
    world.run(0.15)
    assert story(world)[0].startswith("u-0#4: normal -> alone (hybrid): w2 leads; the primary is gone")


def test_a_secondary_that_is_not_ready_is_not_switched_to() -> None:
    world = cluster()
    world.kill("w2")
    world.run(1.05)
    assert [copy.worker for copy in world.change().copies] == ["w1", "w3"]
    world.stall("w1")
    world.run(0.2)
    assert world.leader_of() == "w1"
    world.run(0.5)
    assert world.leader_of() == "w3"


def test_suspicion_never_drops_a_secondary() -> None:
    world = cluster()
    world.stall("w2")
    world.run(2.5)
    assert story(world) == []
    world.run(1.0)
    assert story(world)[0].startswith("u-0#4: normal -> alone (hybrid): w1 leads; the secondary is gone")


def test_while_both_are_silent_nothing_is_done() -> None:
    world = cluster()
    world.stall("w1")
    world.stall("w2")
    world.run(2)
    assert story(world) == []


def test_a_broker_that_hangs_switches_nothing() -> None:
    world = cluster()
    world.broker_up = False
    world.run(5)
    world.broker_up = True
    world.run(2)
    assert story(world) == []


def test_a_replica_whose_own_loop_was_late_suspects_nobody() -> None:
    world = cluster()
    world.replicas[0].late_us = 2_000_000
    world.run(4)
    assert story(world) == []


# -- the other schemes ------------------------------------------------------------------------------------------------


def test_none_waits_for_its_worker_to_return() -> None:
    world = cluster("none")
    world.kill("w1")
    world.run(1)
    assert len(world.story) == 1
    world.restart("w1")
    world.settle()
    assert world.story[1:] == [
        "u-0#2: alone -> alone (none): w1 leads; "
        "the primary is gone: placed again from the checkpoint log (worker w1 returned)"
    ]


def test_none_is_placed_elsewhere_after_the_fail_stop_time_out() -> None:
    world = cluster("none")
    world.kill("w1")
    world.run(2.5)
    assert world.leader_of() == "w1"
    world.run(1)
    assert world.leader_of() == "w2"


@pytest.mark.parametrize("scheme", ["passive-hot", "passive-cold", "deployed", "passive"])
def test_passive_schemes_act_on_the_third_miss_and_do_not_roll_back(scheme: str) -> None:
    world = cluster(scheme)
    world.stall("w1")
    world.run(0.25)
    assert world.leader_of() == "w1"
    world.run(0.2)
    assert world.leader_of() == "w2"
    world.stall("w1", False)
    world.run(2)
    assert world.leader_of() == "w2"


@pytest.mark.parametrize("scheme", ["active-standby", "active-replication"])
def test_active_schemes_act_on_the_first_miss_and_the_two_change_places(scheme: str) -> None:
    world = cluster(scheme)
    before = world.change()
    world.stall("w1")
    world.run(0.25)
    now = world.change()
    assert [copy.worker for copy in now.copies] == ["w2", "w1"]
    assert [copy.flags for copy in now.copies] == [copy.flags for copy in before.copies]


def test_the_job_may_say_how_many_misses_count() -> None:
    world = cluster(misses=4)
    world.stall("w1")
    world.run(0.4)
    assert world.leader_of() == "w1"
    world.run(0.15)
    assert world.leader_of() == "w2"


def test_the_inputs_of_a_hybrid_secondary_are_paused_if_the_job_says_so() -> None:
    assert not cluster(hybrid={"inputs": "paused"}).change().copies[1].flags.receive


def test_an_unplaced_unit_stays_so() -> None:
    world = cluster()
    last = world.change()
    world.append("controller", [type(last)(last.unit, last.epoch + 1, reason="cancelled")])
    world.kill("w1")
    world.run(2)
    assert story(world) == ["u-0#4: normal -> unplaced (none): no copies; cancelled"]


# -- what has ended ---------------------------------------------------------------------------------------------------


def test_silence_moves_nothing_in_a_unit_that_has_ended() -> None:
    """Told while it drained: "the primary is silent", again and again, of a unit with nothing left to do."""
    world = cluster().end()
    world.stall("w1")
    world.run(10)
    world.stall("w1", False)
    world.stall("w2")
    world.run(10)
    assert story(world) == []


def test_a_unit_that_has_ended_needs_no_second_copy() -> None:
    world = cluster().end()
    world.kill("w2")
    assert world.run(3).unprotected() == []
    assert story(world) == []


def test_a_unit_that_ended_while_it_was_switched_is_left_as_it_is() -> None:
    world = switched()
    epoch = world.end().change().epoch
    world.stall("w1", False)
    assert world.run(3).unprotected() == []
    assert world.change().epoch == epoch


def test_another_copy_tells_the_end_if_all_that_told_it_are_gone() -> None:
    world = cluster().end()
    world.kill("w1")
    world.kill("w2")
    world.run(2)
    assert story(world) == [
        "u-0#4: normal -> alone (hybrid): w3 leads; "
        "both copies are gone: placed again from the checkpoint log (worker w1 ended, worker w2 ended)"
    ]
    assert world.workers["w3"].copies[UNIT].state == "ended"


def test_nothing_is_decided_for_units_of_a_generation_that_has_ended() -> None:
    world = cluster()
    ended = Ended("job", G, Id("c", 2), world.plan.id, "drained")
    for replica in world.replicas:
        assert replica.core.observe(DecisionRead(ended), world.now_us) == []
    world.stall("w1")
    world.kill("w2")
    assert world.run(10).unprotected() == []
    assert story(world) == []


def test_a_unit_on_the_only_worker_gets_its_standby_when_a_second_worker_comes() -> None:
    world = World(Worker("w1", "z1"), Worker("w2", "z2"), made=plan({"u-0": "hybrid"}))
    world.workers["w2"].alive = False
    world.start().run(5)
    assert stance(world.change()) is Stance.ALONE
    assert world.unprotected() == [UNIT]
    world.workers["w2"].alive = True
    world.settle()
    assert stance(world.change()) is Stance.NORMAL
    assert [copy.worker for copy in world.change().copies] == ["w1", "w2"]
