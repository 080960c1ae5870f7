"""Outages of units in `assignments`: when one begins and is over, which records count, and the fidelity they state."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Snapshot, job_key, unit_key
from holdfast.schemas.heartbeats import LINE, At, Exit
from holdfast.schemas.outages import Outage
from holdfast.schemas.plans import Plan
from holdfast.schemas.retired import Retired
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.standings import Standings, plausible
from tests.unit.recovery.test_replication import budgeted
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import G, World

JOB = job_key("job", G)
OUT = "s-0"
NEAR = 60
"""Batches of the half second by which a unit may lag, at one each step of 10 ms, and some of a heartbeat."""
KEY = unit_key("job", G, OUT)


def job(results: str = "tentative", base: str = "passive") -> Plan:
    made = budgeted(0.0, base)
    tolerance = {"fail_stop_timeout_s": 3.0, "correlated_failure": {"workers": 9}}
    return structs.replace(made, spec={"fault_tolerance": tolerance, "queries": {"q": {"results": results}}})


def world(results: str = "tentative", replicas: int = 2) -> World:
    made = World(*(Worker(f"w{n}") for n in range(5)), made=job(results), replicas=replicas)
    made.run(0.3)
    made.goal("run")
    return made.settle().run(1.0)


def said(made: World) -> list[Outage]:
    return [one for record in made.log for one in record.outages]


def valid(made: World) -> list[Outage]:
    """In the order of the log."""
    assigned, found = Assigned(), []
    for record in made.log:
        assigned.read(record)
        found += [one for one in record.outages if assigned.outage(one.unit_key) is one]
    return found


def test_an_outage_begins_with_the_record_that_places_the_unit_and_is_over_once_it_has_recovered() -> None:
    made = world()
    before = made.change(KEY)
    made.kill(before.copies[0].worker)
    made.run(1.0)
    began, placed = next((record.outages[0], record) for record in made.log if record.outages)
    assert (began.unit, began.number, began.epoch, began.over) == (OUT, 1, before.epoch, False)
    assert [change.epoch for change in placed.changes if change.unit == KEY] == [before.epoch + 1]
    assert began.fidelity == {"q": 0.75}
    assert began.upto > 0
    made.rest()
    first, last = valid(made)
    assert last.over
    assert last.number == first.number
    assert last.fidelity == {"q": 1.0}
    place = next(n for n, record in enumerate(made.log) if last in record.outages)
    assert place > made.log.index(placed), "a placement does not end an outage"
    assert all(not replica.core.known.assigned.out(JOB) for replica in made.replicas)


def test_an_outage_lasts_until_the_unit_has_caught_up_with_the_newest_one() -> None:
    made = world(replicas=1)
    worker = made.leader_of(KEY)
    core = made.replicas[0].core
    made.kill(worker)
    made.run(0.3)
    while made.checked.out(JOB):
        made.run(0.01)
        assert made.now_us < 60_000_000, made.story
    over, leader = valid(made)[-1], made.change(KEY).copies[0]
    report = core.known.detector.report(leader.worker, leader.incarnation, KEY)
    newest = max(copy.batch for unit in made.checked.units() for copy in core.known.detector.last_reports(unit))
    assert report is not None
    assert report.state == "running"
    assert report.batch >= over.upto, "over while the unit is still behind"
    assert report.batch >= newest - NEAR, "over while the unit is still behind"


def test_a_job_whose_queries_have_final_results_has_no_outages() -> None:
    made = world("final")
    made.kill(made.leader_of(KEY))
    made.rest()
    assert said(made) == []


def test_a_unit_with_a_standby_is_never_out() -> None:
    made = World(*(Worker(f"w{n}") for n in range(5)), made=job(base="passive-hot"), replicas=2)
    made.run(0.3)
    made.goal("run")
    made.settle().run(1.0)
    made.kill(made.leader_of(KEY))
    made.rest()
    assert said(made) == []


def test_an_outage_is_over_when_its_job_stops() -> None:
    made = world(replicas=1)
    for name in [*made.workers][1:]:
        made.kill(name)
    made.kill(next(iter(made.workers)))
    made.run(0.5)
    assert len(made.checked.out(JOB)) == 5
    assert made.checked.out(JOB)[OUT].fidelity["q"] < 1
    made.goal("stop", asked=9)
    made.run(2.0)
    assert not made.checked.out(JOB)
    assert valid(made)[-1].fidelity == {"q": 1.0}


def test_a_worker_that_ended_at_tentative_rows_bans_them_and_costs_no_unit_its_place() -> None:
    made = world()
    made.kill(made.leader_of(KEY))
    while not made.checked.out(JOB):
        made.run(0.05)
        assert made.now_us < 60_000_000, made.story
    victim = made.leader_of(unit_key("job", G, "k-0"))
    incarnation = made.workers[victim].incarnation
    made.workers[victim].alive = False
    made.publish(Exit(victim, incarnation, 1, 1, at=(At(unit_key("job", G, "k-0"), 0, LINE),)))
    made.run(1.0)
    banned = [one for one in valid(made) if one.banned and not one.over]
    assert [(one.unit, one.number) for one in banned] == [(OUT, 1)], "once, however many replicas there are"
    assert all(replica.core.known.crashes.of(unit_key("job", G, "k-0")) is None for replica in made.replicas)
    made.restart(victim)
    made.rest()
    assert not made.checked.out(JOB)
    made.kill(made.leader_of(KEY))
    made.run(0.3)
    assert not made.checked.out(JOB)[OUT].banned, "the next outage is another one"


# -- what counts ------------------------------------------------------------------------------------------------------


def _outage(number: int, epoch: int, *, over: bool = False, unit: str = OUT) -> Outage:
    return Outage("job", G, unit, number, epoch, 7, {"q": 0.5}, over)


def _placed(epoch: int) -> Change:
    return Change(KEY, epoch, (Copy(f"w{epoch}", "1", PRIMARY),), "passive")


def _record(*outages: Outage, changes: tuple[Change, ...] = ()) -> Assignment:
    return Assignment("r", 1, changes, outages=outages)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (_outage(1, 1), "its author has not read the placement"),
        (_outage(1, 3), "of a placement that is not there"),
        (_outage(1, 2, over=True), "over, and never begun"),
        (_outage(1, 0, unit="s-1"), "of a unit that was never placed"),
    ],
)
def test_a_record_about_an_outage_counts_only_where_it_fits(wrong: Outage, why: str) -> None:
    assigned = Assigned([_placed(2)])
    assigned.read(_record(wrong))
    assert assigned.out(JOB) == {}, why


def test_an_outage_is_banned_once_and_only_while_it_is_open() -> None:
    assigned, banned = Assigned([_placed(1)]), structs.replace(_outage(1, 1), banned=True)
    assigned.read(_record(banned))
    assert assigned.out(JOB)[OUT].banned, "one that begins may be banned at once"
    assigned = Assigned([_placed(1)])
    assigned.read(_record(_outage(1, 1)))
    assigned.read(_record(banned))
    assert assigned.out(JOB) == {OUT: banned}
    assigned.read(_record(structs.replace(banned, fidelity={"q": 0.1})))
    assert assigned.out(JOB) == {OUT: banned}
    assigned.read(_record(structs.replace(banned, over=True)))
    assigned.read(_record(banned))
    assert assigned.out(JOB) == {}


def test_the_first_of_two_notes_of_an_outage_counts_and_each_outage_ends_once() -> None:
    assigned = Assigned([_placed(1)])
    first, second = _outage(1, 1), structs.replace(_outage(1, 1), upto=9)
    assigned.read(_record(first, changes=(_placed(2),)))
    assigned.read(_record(second))
    assert assigned.out(JOB) == {OUT: first}
    assigned.read(_record(_outage(2, 2)))
    assert assigned.out(JOB) == {OUT: first}, "an open outage does not begin again"
    assigned.read(_record(_outage(1, 2, over=True)))
    assert assigned.out(JOB) == {}
    assert assigned.outage(KEY) == _outage(1, 2, over=True)
    assigned.read(_record(_outage(1, 2)))
    assert assigned.out(JOB) == {}, "a number counts once"
    assigned.read(_record(_outage(2, 2)))
    assert assigned.out(JOB) == {OUT: _outage(2, 2)}


def test_outages_survive_in_snapshots_and_leave_with_their_job() -> None:
    standings = Standings()
    standings.read(0, Assignment("r", 1, (_placed(1),)))
    standings.read(1, _record(_outage(1, 1), changes=(_placed(2),)))
    standings.read(2, _record(_outage(9, 1)))
    snapshot = standings.snapshot()
    assert isinstance(snapshot, Snapshot)
    assert plausible(snapshot, 3)
    again = Standings.of(snapshot)
    assert again.assigned.out(JOB) == {OUT: _outage(1, 1)}
    assert again.snapshot() == snapshot
    for fold in (standings, again):
        fold.read(3, _record(_outage(1, 2, over=True)))
        fold.read(4, Assignment("r", 1, (Change(KEY, 3),), retired=Retired(below=4)))
    assert standings.snapshot() == again.snapshot()
    assert standings.assigned.outage(KEY) is None
    assert not standings.snapshot().outages
