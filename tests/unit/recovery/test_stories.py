"""Stories of MECHANISMS H3 word for word."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.schemas.assignments import Copy
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Ended
from holdfast.services.recovery.core.observed import DecisionRead
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.support.golden import golden
from tests.unit.recovery.clusters import (
    behind,
    cluster,
    story,
    switched,
)
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import UNIT, G, World, plan

T, S = Stance, Sign


# -- MECHANISMS H3, word for word -------------------------------------------------------------------------------------


def test_a_unit_is_protected_by_a_secondary_in_another_zone() -> None:
    assert cluster().story == golden(__file__, "protected")


def test_a_silent_primary_is_switched_from_and_leads_again_once_it_is_well() -> None:
    world = switched()
    world.stall("w1", False)
    world.settle()
    assert world.story == golden(__file__, "switched-and-back")


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
    assert world.story == golden(__file__, "silent-secondary-that-leads")


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


def test_a_primary_that_answers_but_does_not_catch_up_does_not_lead_again() -> None:
    world = behind().run(1)
    assert stance(world.change()) is T.SWITCHED
    world.heal().settle()
    assert world.leader_of() == "w1"


def test_a_primary_that_is_not_well_past_the_fail_stop_time_out_has_changed_places() -> None:
    """What it would need is kept from the switch on: that must end."""
    world = behind().run(2.9)
    assert world.story == golden(__file__, "changed-places")


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
    assert world.story == golden(__file__, "promoted")


def test_the_secondary_dies_and_a_new_one_is_started() -> None:
    world = cluster()
    world.kill("w2")
    assert world.settle().story == golden(__file__, "secondary-dies")


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
    assert world.story == golden(__file__, "both-killed")[:5]
    world.restart("w2")
    world.settle()
    assert world.story == golden(__file__, "both-killed")


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
