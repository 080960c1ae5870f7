"""Several replicas run at once: the log decides, and which of them live changes nothing."""

from __future__ import annotations

from unittest import mock

import pytest

from holdfast.schemas.assignments import Assignment, Change, Flags
from holdfast.schemas.heartbeats import Exit
from holdfast.services.recovery.core.observed import (
    AssignmentRead,
    BeatRead,
    CaughtUp,
    DecisionRead,
    SchemeAsked,
    Withdrawn,
)
from holdfast.services.recovery.core.recovery import Recovery
from holdfast.services.recovery.core.unit.facts.stance import Stance
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import UNIT, World, plan


def cluster(replicas: int = 2) -> World:
    workers = [Worker(f"w{number}", f"z{number}") for number in (1, 2, 3)]
    return World(*workers, replicas=replicas).start().settle()


def agree(world: World) -> None:
    stories = [replica.core.reading.story for replica in world.replicas]
    assert all(story == stories[0] for story in stories)
    assert all(replica.core.known.assigned.units() == world.checked.units() for replica in world.replicas)


def test_both_propose_and_one_record_of_each_epoch_counts() -> None:
    world = cluster()
    world.kill("w1")
    world.settle()
    agree(world)
    proposed = [change.epoch for record in world.log for change in record.changes]
    assert len(proposed) > len(world.history), "both proposed"
    assert [change.epoch for change in world.history] == list(range(1, len(world.history) + 1))


def test_conflicting_proposals_converge() -> None:
    """One replica hears nothing of w1, the other nothing of w2: they would switch to and fro against each other."""
    world = cluster()
    world.replicas[0].deaf, world.replicas[1].deaf = frozenset({"w1"}), frozenset({"w2"})
    world.run(1.5)
    agree(world)
    world.heal().settle()
    agree(world)
    epoch = world.change().epoch
    world.run(2)
    assert world.change().epoch == epoch


@pytest.mark.parametrize("killed", [0, 1])
def test_killing_a_replica_during_a_switch_changes_nothing(killed: int) -> None:
    world = cluster()
    world.stall("w1")
    world.until(Stance.SWITCHED)
    world.replicas[killed].alive = False
    world.heal()
    world.run(2)
    alive = world.replicas[1 - killed].core
    assert len(alive.reading.story) == 5, "switched, switched back"
    assert world.leader_of() == "w1"
    assert not alive.known.unprotected()


@pytest.mark.parametrize("when", [Stance.NORMAL, Stance.SWITCHED])
def test_a_replica_that_starts_late_agrees(when: Stance) -> None:
    world = cluster(replicas=1)
    world.ask("passive-hot")
    world.ask("hybrid")
    world.settle()
    if when is not Stance.NORMAL:
        world.stall("w1")
        world.until(Stance.SWITCHED)
    world.run(0.01)  # what was proposed last is read back
    epoch = world.change().epoch
    late = world.add_replica()
    agree(world)
    world.run(0.05)
    assert world.change().epoch == epoch, "it does not begin with a decision of its own"
    world.replicas[0].alive = False
    world.heal()
    world.run(3)
    assert not late.core.known.unprotected()
    assert (world.change().scheme, world.leader_of()) == ("hybrid", "w1")


def test_the_order_in_which_topics_are_read_does_not_matter() -> None:
    world = cluster(replicas=1)
    core = Recovery()
    for offset, record in enumerate(world.log):
        core.observe(AssignmentRead(record, offset), 10_000)
    core.observe(SchemeAsked(UNIT, "deployed", 12), 10_000)
    core.observe(SchemeAsked(UNIT, "passive", 11), 10_000)
    core.observe(DecisionRead(world.plan), 10_000)
    assert [change.scheme for change in core.observe(CaughtUp(), 10_000)] == ["deployed"]


def test_a_late_replica_places_nothing_on_workers_that_it_knows_from_history_alone() -> None:
    world = cluster(replicas=1)
    world.replicas[0].alive = False
    world.kill("w3", notice=False)
    world.kill("w2")
    world.add_replica()
    world.run(3)
    assert [copy.worker for copy in world.change().copies] == ["w1"]
    world.heal().settle()


def test_a_proposal_is_made_once_until_it_is_read_back_or_withdrawn() -> None:
    world = cluster(replicas=1)
    replica = world.replicas[0]
    core = replica.core
    replica.alive = False
    world.kill("w1")
    now_us = world.now_us + 10_000
    changes = core.observe(BeatRead(world.beats[-1]), now_us)
    assert [change.epoch for change in changes] == [4]
    assert core.tick(now_us + 200_000) == []
    core.observe(Withdrawn(tuple(changes)), now_us + 210_000)
    assert core.tick(now_us + 320_000) == changes


def test_a_record_with_two_committers_moves_nobody() -> None:
    world = cluster()
    last = world.change()
    both = tuple(type(copy)(copy.worker, copy.incarnation, Flags()) for copy in last.copies)
    world.append("stranger", [Change(UNIT, last.epoch + 1, both, "hybrid", "mistaken")])
    world.run(0.2)
    assert world.change() == last
    agree(world)


def test_a_record_with_flags_and_a_scheme_of_another_version_is_led_back() -> None:
    world = cluster()
    last = world.change()
    odd = type(last.copies[1])("w2", "1", Flags(receive=False, commit=False))
    world.append("stranger", [Change(UNIT, last.epoch + 1, (last.copies[0], odd), "hybrid", "strange")])
    world.settle()
    assert world.change().copies == last.copies


ODD = [Flags(state="warm", commit=False), Flags(state="warm"), Flags(checkpoint_target=True), Flags(state="deployed")]


@pytest.mark.parametrize("scheme", ["active-replication", "none", "passive-cold", "hybrid"])
@pytest.mark.parametrize("odd", ODD, ids=str)
def test_flags_that_no_version_knows_stop_no_replica_whatever_follows(odd: Flags, scheme: str) -> None:
    """Both replicas failed on the record that one of them made of it, and again after every start."""
    world = cluster()
    first, second = world.change().copies
    make = type(first)
    copies = (make("w1", "1", odd), second) if odd.commit else (first, make("w2", "1", odd))
    world.append("stranger", [Change(UNIT, world.change().epoch + 1, copies, "hybrid", "strange")])
    world.add_replica()
    world.ask(scheme)
    world.settle()
    world.kill("w1")
    world.settle()
    assert world.change().scheme == scheme
    agree(world)


def test_a_scheme_and_copies_that_nobody_knows_stop_no_replica() -> None:
    world = cluster()
    copies = world.change().copies
    world.append("stranger", [Change(UNIT, world.change().epoch + 1, copies, "by-magic", "strange")])
    world.run(1.0)
    world.ask("passive-hot")
    world.settle()
    assert world.change().scheme == "passive-hot"


def test_many_units_are_taken_over_in_one_record_and_spread_over_the_others() -> None:
    workers = [Worker(f"w{number}", f"z{number}", slots=4) for number in (1, 2, 3, 4)]
    units = {f"u-{index}": "hybrid" for index in range(6)}
    world = World(*workers, made=plan(units)).start().settle()
    backups = [world.change(unit).copies[1].worker for unit in world.units]
    assert sorted(backups) == ["w2", "w2", "w3", "w3", "w4", "w4"], "they share no more than they must"
    records = len(world.log)
    world.kill("w1")
    world.run(0.03)
    assert len(world.log[records].changes) == 6
    world.settle()
    assert all(world.leader_of(unit) == backup for unit, backup in zip(world.units, backups, strict=True))


def test_an_assignment_may_be_read_before_the_plan_and_the_heartbeat() -> None:
    world = cluster(replicas=1)
    late = World(made=world.plan)
    core = late.replicas[0].core
    for offset, record in enumerate(world.log):
        core.observe(AssignmentRead(record, offset), 10_000)
    assert core.tick(20_000) == []


def test_a_heartbeat_that_says_nothing_new_concerns_no_settled_unit() -> None:
    world = cluster(replicas=1)
    known = world.replicas[0].core.known
    assert known.units_on("w1") == [UNIT]
    assert known.unsettled_on("w1") == []
    world.kill("w2")
    world.run(0.05)
    assert known.unsettled_on("w1") == [UNIT], "it is to get another standby"
    world.settle()
    assert known.unsettled_on("w1") == []


def test_a_settled_unit_is_looked_at_every_second_and_as_soon_as_a_record_or_an_exit_was_read() -> None:
    world = cluster(replicas=1)
    world.replicas[0].alive = False
    core, began_us = world.replicas[0].core, world.now_us

    def looks(first_ms: int, last_ms: int) -> list[int]:
        """When it is looked at, while every worker says what it said before."""
        found = []
        for ms in range(first_ms, last_ms + 1, 10):
            with mock.patch.object(core.known, "situation", wraps=core.known.situation) as looked:
                for beat in world.beats[-3:]:
                    core.observe(BeatRead(beat), began_us + ms * 1000)
                core.tick(began_us + ms * 1000)
            found += [ms] * looked.called
        return found

    first, second = looks(10, 2_000)
    assert second - first == 1_000
    core.observe(AssignmentRead(Assignment("c", 0, ()), len(world.log)), began_us + 2_005_000)
    assert looks(2_010, 2_100) == [2_010]
    core.observe(BeatRead(Exit("w4", "1", 0)), began_us + 2_105_000)
    assert looks(2_110, 2_200) == [2_110]
