"""Decision 0077: a copy with other versions leads once it has shown equal bytes. The stories, word for word."""

from __future__ import annotations

import re

import pytest

from holdfast.schemas.assignments import PRIMARY, Change, Copy, Unshown
from holdfast.schemas.heartbeats import CopyState
from holdfast.services.recovery.core.unit.facts.proving import BATCHES, KEPT, Proofs
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES, Rung
from tests.unit.recovery.clusters import cluster, mixed, moving_mixed, story
from tests.unit.recovery.workers import NEW, OLD, OTHER, Worker
from tests.unit.recovery.world import UNIT, World, plan

pytestmark = pytest.mark.slow

LEADER, STANDBY = Copy("w1", "1", PRIMARY), Copy("w2", "1", Rung.STANDBY.flags)
CHANGE = Change(UNIT, 3, (LEADER, STANDBY), unshown=(Unshown("w2", "polars 2"),), shown=("polars 1",))


def shows(proofs: Proofs, copy: Copy, batches: range, odd: int = 0) -> None:
    digests = tuple((batch, 2 * batch + int(batch == odd)) for batch in batches)
    proofs.see(CHANGE, (copy.worker, copy.incarnation), CopyState(UNIT, 3, "running", shows=digests))


# -- what is counted --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(LEADER, STANDBY), (STANDBY, LEADER)], ids=lambda one: one[0].worker)
def test_a_copy_has_shown_enough_once_so_many_batches_are_equal(order: tuple[Copy, Copy]) -> None:
    proofs = Proofs()
    for copy in order:
        shows(proofs, copy, range(1, BATCHES))
    assert (proofs.equal(UNIT, STANDBY), proofs.shown(UNIT, STANDBY)) == (BATCHES - 1, False)
    for copy in order:
        shows(proofs, copy, range(BATCHES - 20, BATCHES + 1))
    assert (proofs.equal(UNIT, STANDBY), proofs.shown(UNIT, STANDBY)) == (BATCHES, True), "each counts once"


def test_a_batch_that_did_nothing_counts_a_tenth() -> None:
    proofs = Proofs()
    for copy in (LEADER, STANDBY):
        for first in range(1, 10 * BATCHES, 16):
            digests = tuple((batch, 0) for batch in range(first, first + 16))
            proofs.see(CHANGE, (copy.worker, copy.incarnation), CopyState(UNIT, 3, "running", shows=digests))
            if copy is STANDBY and first < 900:
                assert not proofs.shown(UNIT, STANDBY)
    assert proofs.shown(UNIT, STANDBY)
    shows(proofs, STANDBY, range(1_009, 1_010))
    proofs.see(CHANGE, ("w1", "1"), CopyState(UNIT, 3, "running", shows=((1_009, 0),)))
    found = proofs.differing(CHANGE, STANDBY, None)
    assert str(found) == "w2, batch 1009: polars 2", "it did something, the leader did not"


def test_a_single_batch_that_differs_is_enough_whenever_it_is_seen() -> None:
    proofs = Proofs()
    shows(proofs, LEADER, range(1, 200))
    shows(proofs, STANDBY, range(100, 200))
    assert proofs.differing(CHANGE, STANDBY, None) is None
    shows(proofs, STANDBY, range(50, 100), odd=60)
    found = proofs.differing(CHANGE, STANDBY, None)
    assert str(found) == "w2, batch 60: polars 2"
    assert not proofs.shown(UNIT, STANDBY)


def test_a_copy_that_stops_has_shown_that_it_gives_something_else() -> None:
    report = CopyState(UNIT, 3, "failed", error="no such function")
    found = Proofs().differing(CHANGE, STANDBY, report)
    assert str(found) == "w2, stopped: no such function: polars 2"
    assert Proofs().differing(CHANGE, LEADER, report) is None, "the leader's failure is the job's"


def test_proofs_of_an_incarnation_say_nothing_of_the_next() -> None:
    proofs = Proofs()
    shows(proofs, LEADER, range(1, 300))
    shows(proofs, STANDBY, range(1, 300))
    later = Copy("w2", "2", STANDBY.flags)
    proofs.follow(Change(UNIT, 4, (LEADER, later), unshown=CHANGE.unshown))
    assert proofs.equal(UNIT, later) == 0
    assert proofs.equal(UNIT, STANDBY) == 0


def test_the_number_of_kept_batches_is_bounded() -> None:
    proofs = Proofs()
    for first in range(1, 10 * KEPT, 16):
        shows(proofs, STANDBY, range(first, first + 16))
    shows(proofs, LEADER, range(1, 10 * KEPT + 1))
    assert 0 < proofs.equal(UNIT, STANDBY) <= KEPT
    proofs.forget(UNIT)
    assert proofs.equal(UNIT, STANDBY) == 0


# -- stories ----------------------------------------------------------------------------------------------------------


def told(world: World) -> list[str]:
    """The story, whatever the number of batches that were equal in the end."""
    return [re.sub(r"\d+ batches", "N batches", line) for line in world.story]


def test_a_secondary_with_other_versions_processes_until_it_has_shown_equal_bytes() -> None:
    world = mixed()
    assert world.unprotected() == [UNIT], "nobody may take over yet"
    assert told(world.settle())[3:] == [
        "u-0#4: normal -> alone (hybrid): w1 leads; the secondary is gone: the primary continues alone",
        "u-0#5: alone -> normal (hybrid): w1 leads, w2 catching; there is no secondary: a new secondary",
        "u-0#6: normal -> normal (hybrid): w1 leads, w2 standby; "
        "the next step towards the scheme is safe: its flags change",
        "u-0#7: normal -> normal (hybrid): w1 leads, w2 standby; a copy with other versions has shown equal bytes: "
        "its versions may lead (w2, N batches: polars 2)",
        "u-0#8: normal -> normal (hybrid): w1 leads, w2 catching; "
        "the next step towards the scheme is safe: its flags change",
        "u-0#9: normal -> normal (hybrid): w1 leads, w2 hot; "
        "the next step towards the scheme is safe: its flags change",
    ]
    assert world.change().shown == ("polars 1", "polars 2")
    world.kill("w1")
    assert world.run(0.1).leader_of() == "w2"


def test_versions_that_give_other_bytes_get_no_copy_any_more() -> None:
    world = mixed(OTHER).run(5)
    assert [copy.worker for copy in world.change().copies] == ["w1"]
    assert [str(one) for one in world.change().differ] == [f"w2, batch {world.change().differ[0].batch}: polars 3"]
    assert story(world)[2].startswith(
        "u-0#6: normal -> alone (hybrid): w1 leads; the secondary gives other bytes: the primary continues alone (w2, "
    )
    assert len(story(world)) == 3
    world.upgrade("w2", OLD)
    assert world.settle().leader_of() == "w1"


def test_a_copy_that_has_not_shown_equal_bytes_does_not_lead_though_nobody_else_is_left() -> None:
    world = mixed()
    world.kill("w1")
    world.run(20)
    assert world.change().epoch == 5, "no record: nobody may lead"
    world.upgrade("w1", OLD)
    assert story(world.settle())[2].startswith(
        "u-0#6: normal -> alone (hybrid): w1 leads; the primary is gone and no other copy may lead: "
        "placed again from the checkpoint log (worker w1 ended)"
    )


def test_a_unit_moves_to_other_versions_once_they_have_shown_equal_bytes() -> None:
    world = moving_mixed().run(3)
    assert world.leader_of() == "w2"
    assert [line.partition(": ")[2] for line in told(world)[-3:]] == [
        "alone -> moving (none): w1 leads, w2 catching; a move was asked for: a new copy catches up",
        "moving -> moving (none): w1 leads, w2 catching; a copy with other versions has shown equal bytes: "
        "its versions may lead (w2, N batches: polars 2)",
        "moving -> alone (none): w2 leads; the new copy has caught up and no other stays: it leads",
    ]


def test_a_unit_does_not_move_to_versions_that_give_other_bytes_and_a_second_request_says_why() -> None:
    world = moving_mixed(OTHER).run(3)
    assert world.leader_of() == "w1"
    world.move("w2")
    assert "nothing moves (w2 gives other bytes: w2, batch" in world.run(1).story[-1]


def test_versions_of_a_worker_without_data_show_nothing_and_the_move_is_given_up() -> None:
    world = moving_mixed()
    world.workers["w2"].slow = True
    world.run(62)
    lines = [line for line in world.story if "the new copy does not catch up" in line]
    assert "the unit stays where it is (0 of 100 batches shown to be equal)" in lines[0]
    assert world.leader_of() == "w1"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_rolling_upgrade_of_all_workers_ends_with_every_unit_on_the_new_versions(scheme: str) -> None:
    made = plan({f"u-{number}": scheme for number in range(3)})
    world = World(*(Worker(f"w{number}", f"z{number}") for number in (1, 2, 3)), made=made).start().settle()
    led: dict[str, str] = {}

    def look(before: Change | None, after: Change) -> None:
        leader = after.committer
        assert leader is not None
        worker = world.workers[leader.worker]
        assert worker.version == OLD or f"polars {NEW}" in after.shown
        led[after.unit] = worker.version

    world.watchers.append(look)
    for name in ("w1", "w2", "w3"):
        world.leave(name)
        for _ in range(100):
            if all(world.leader_of(unit) != name for unit in world.units):
                break
            world.run(0.1)
        else:
            raise AssertionError("\n".join([f"{name} leads still:", *world.story]))
        world.upgrade(name)
        world.run(0.5).settle()
        world.run(4)
    assert set(led.values()) == {NEW}
    assert all(change.shown == ("polars 1", "polars 2") for change in map(world.change, world.units))


def test_a_new_unit_starts_wherever_there_is_room_and_its_first_leader_says_what_is_equal() -> None:
    world = World(Worker("w1", version=NEW), Worker("w2", version=NEW)).run(0.3)
    world.goal("run")
    world.settle()
    assert world.change().shown == ("polars 2",)
    assert world.change().unshown == ()


def test_a_replica_that_starts_again_reads_in_the_log_what_was_shown() -> None:
    world = mixed().settle()
    world.replicas[0].alive = False
    world.add_replica()
    world.run(1).kill("w1")
    assert world.run(0.1).leader_of() == "w2"


def test_with_data_missing_at_start_nobody_is_taken_for_shown() -> None:
    """A replica that starts while a copy has yet to show its bytes counts from then on."""
    world = mixed()
    before = world.change()
    world.replicas[0].alive = False
    world.add_replica()
    assert world.change() == before
    world.settle()
    assert world.change().shown == ("polars 1", "polars 2")


# -- a person decides -------------------------------------------------------------------------------------------------


def test_a_person_lets_the_versions_that_run_lead_if_nobody_is_left_to_compare_with() -> None:
    world = cluster()
    for name in ("w1", "w2", "w3"):
        world.kill(name)
    for name in ("w1", "w2", "w3"):
        world.upgrade(name)
    world.run(40)
    assert "polars 2" not in str(world.change().shown), "all were replaced at once: the unit waits"
    before = len(world.story)
    world.accept()
    world.settle()
    assert world.story[before].endswith("a person lets other versions lead: its versions may lead (polars 2)")
    assert world.workers[world.leader_of()].version == NEW
    assert world.change().shown == ("polars 1", "polars 2")


def test_accepted_versions_are_those_that_run_then_and_none_later() -> None:
    world = mixed(OTHER).run(5)
    assert world.change().differ
    world.accept()
    world.settle()
    assert (world.change().differ, world.change().shown) == ((), ("polars 1", "polars 3"))
    world.upgrade("w2", NEW)
    world.run(2)
    assert [one.versions for one in world.change().unshown] == ["polars 2"]


def test_an_accept_is_answered_once_whatever_replica_reads_it() -> None:
    world = cluster()
    world.accept()
    world.run(1)
    epoch = world.change().epoch
    world.add_replica()
    assert world.run(2).change().epoch == epoch
