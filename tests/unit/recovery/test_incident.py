"""Units that failed together: every row of the table of incident.py, the paper's staircase on workers, stories."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.schemas.costs import Costs
from holdfast.schemas.incidents import Chosen, Incident, Place
from holdfast.services.recovery.core.job.incident import TRANSITIONS, Move, Phase, Scene, Sign, next_record, phase
from holdfast.services.recovery.core.job.recovery_plan import Query
from tests.unit.recovery.hashtags import (
    WINDOWS,
    arrive,
    available,
    epochs,
    hashtags,
    incident,
    key,
    kill_eight,
    records,
    ten_workers,
    told,
)
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import G, World, plan

P, S = Phase, Sign
# -- the table --------------------------------------------------------------------------------------------------------


def scene(incident: Incident | None, stranded: str = "ab", **more: object) -> Scene:
    """Of a job of units a, b and c, a query for each."""
    queries = {f"q{name}": Query(frozenset(name)) for name in "abc"}
    units = frozenset("abc")
    known: dict[str, object] = {"running": units - set(stranded), "workers": ("w1", "w2"), "together": True, "slots": 1}
    return Scene("job", G, incident, units, frozenset(stranded), queries=queries, **{**known, **more})  # type: ignore[arg-type]


def record(*granted: str, units: str = "ab", planned: bool = True, **more: object) -> Incident:
    chosen = tuple(Chosen(f"q{unit}", (unit,), 1.0) for unit in granted)
    return Incident("job", G, 4, ("w1", "w2"), tuple(units), planned, chosen, **more)  # type: ignore[arg-type]


SCENES: dict[tuple[Phase, Sign], Scene] = {
    (P.CALM, S.TOGETHER): scene(None),
    (P.DETECTED, S.TOGETHER): scene(record(planned=False, blocking=True), back=True),
    (P.DETECTED, S.FURTHER): scene(record(planned=False), "abc"),
    (P.DETECTED, S.BACK): scene(record(planned=False), ""),
    (P.DETECTED, S.HEARD): scene(record(planned=False)),
    (P.PLANNED, S.TOGETHER): scene(record(blocking=True), back=True),
    (P.PLANNED, S.FURTHER): scene(record("a"), "abc"),
    (P.PLANNED, S.BACK): scene(record(), ""),
    (P.PLANNED, S.OTHER_SLOTS): scene(record("a"), slots=2),
    (P.PLANNED, S.NO_WORKER_CAME): scene(record("a"), age_us=30_000_000),
    (P.RESTORING, S.TOGETHER): scene(record("a", "b", blocking=True), "b", back=True),
    (P.RESTORING, S.FURTHER): scene(record("a"), "bc"),
    (P.RESTORING, S.BACK): scene(record("a", "b"), ""),
    (P.RESTORING, S.OTHER_SLOTS): scene(record("a"), "b"),
    (P.RESTORING, S.NO_WORKER_CAME): scene(record("a"), "b", slots=0, age_us=30_000_000),
}


def test_there_is_a_scene_for_every_row_and_every_move_is_made() -> None:
    assert set(SCENES) == set(TRANSITIONS)
    assert {move for _, move in TRANSITIONS.values()} == set(Move)


@pytest.mark.parametrize(("before", "sign"), TRANSITIONS, ids=lambda value: value.name.lower())
def test_every_row_of_the_table_is_taken(before: Phase, sign: Sign) -> None:
    """Invariants are checked with every record that is made."""
    one = SCENES[before, sign]
    assert one.phase is before
    made = next_record(one)
    assert made is not None
    after, move = TRANSITIONS[before, sign]
    assert made[1].endswith(f"{before.value} -> {after.value}: {sign.value}: {move.value}")
    assert phase(made[0], one.stranded) is after
    assert made[0].number == (1 if one.incident is None else 5)


@pytest.mark.parametrize(
    "quiet",
    [
        scene(None, ""),
        scene(None, together=False),
        scene(record("a")),
        scene(record("a"), slots=1, heard=False),
        scene(record("a", "b"), "", running=frozenset("ac")),
        scene(record(), slots=0),
        scene(record(beyond=True), "", running=frozenset("c")),
        scene(record("a", "b", blocking=True), slots=2, back=True, gradual=False),
        scene(record(blocking=True), slots=1, back=True, gradual=False),
    ],
)
def test_nothing_is_due(quiet: Scene) -> None:
    assert next_record(quiet) is None


@pytest.mark.parametrize(
    ("back", "gradual", "together", "blocking"),
    [(False, False, True, False), (True, True, True, False), (True, True, False, True), (True, False, True, True)],
)
def test_units_wait_for_each_other_only_in_a_blocking_recovery(
    back: bool, gradual: bool, together: bool, blocking: bool
) -> None:
    """MECHANISMS R2: adaptive is gradual from N workers on; below that, and under source, recovery is blocking."""
    made = next_record(scene(None, back=back, gradual=gradual, together=together, line=3))
    if not together and not back:
        assert made is None
        return
    assert made is not None
    assert (made[0].blocking, made[0].line) == (blocking, 3 if back else 0)


# -- on workers -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_papers_staircase_by_workers_that_arrive_one_by_one() -> None:
    world, stairs = kill_eight(ten_workers(hashtags())), []
    assert available(world) == []
    for number in range(8):
        stairs.append(len(available(arrive(world, f"r{number}"))))
        assert all(len(held.copies) <= held.slots for held in world.workers.values() if held.alive), "slots are hard"
    assert stairs == [2, 4, 6, 8, 10, 12, 14, 15]
    assert incident(world).over
    assert told(world)[1] == (
        "incident job#2: 0 slots; restored: nothing; waiting: o0 8, o1 8, o2 8, o3 8, o4 0.8, o5 0.8, o6 0.8, o7 0.8, "
        "o8 0.8, o9 0.8, o10 0.7273, o11 0.7273, o12 0.7273, o13 0.7273, o14 0.6667"
    ), "five times the paper's, as an operator has one task here"
    assert told(world)[2].startswith("incident job#3: 2 slots; restored: o0 8: o0; o1 8: o1; waiting: o2 8, ")
    assert told(world)[-1] == "incident job#11: over"


def test_survivors_take_what_fits_and_a_query_of_priority_comes_first() -> None:
    world = ten_workers(hashtags({"o14": 50}), slots=5)
    for number in range(1, 8):
        world.kill(f"w{number}")
    world.run(2)
    assert len(world.workers["w8"].copies) == 5, "o14 was there, and the four windows that it needs have come"
    assert available(world) == [*WINDOWS, "o14"]


def test_a_record_keeps_what_units_consumed_so_that_no_replica_replaces_the_plan_of_another() -> None:
    """Where one unit fits, the query whose unit used less comes first, whatever the next replica has measured."""
    opened = next_record(scene(None, consumption={"a": 4.0, "c": 2.0}))
    assert opened is not None
    assert opened[0].consumption == {"a": 4.0}, "c has not failed"
    planned = next_record(scene(opened[0]))
    assert planned is not None
    assert planned[0].granted == ("b",)
    assert next_record(scene(planned[0], consumption={"b": 4.0})) is None
    widened = next_record(scene(planned[0], "abc", consumption={"a": 0.5, "c": 2.0}))
    assert widened is not None
    assert widened[0].consumption == {"a": 4.0, "c": 2.0}


def test_a_query_whose_unit_used_little_comes_back_before_one_whose_unit_used_much() -> None:
    """o0 and o1 are named first, and use much of a CPU; there is room for two queries."""
    world = ten_workers(hashtags())
    world.measured = lambda unit, now_us, leads: Costs(
        unit, cpu_ms=now_us / 1000 * (0.4 if unit in (key("o0"), key("o1")) else 0.05), leads=leads
    )
    world.run(5)
    kill_eight(world)
    arrive(world, "r0")
    assert incident(world).consumption == {"o0": 4.0, "o1": 4.0}
    assert available(world) == ["o2", "o3"]


def test_a_failure_during_recovery_restores_only_what_newly_failed() -> None:
    world = kill_eight(ten_workers(hashtags()))
    arrive(arrive(world, "r0"), "r1")
    before = epochs(world)
    gone = {unit for unit in world.units if world.leader_of(unit) == "r1"}
    world.kill("r1")
    arrive(world, "r2")
    changed = {unit for unit, epoch in epochs(world).items() if epoch != before[unit]}
    assert changed == gone
    assert len(available(world)) == 4
    assert "r1" in incident(world).workers


@pytest.mark.slow
def test_any_replica_continues_and_also_one_that_starts_in_the_middle() -> None:
    world = kill_eight(ten_workers(hashtags()))
    arrive(world, "r0", "r1")
    world.replicas[0].alive = False
    number = incident(world).number
    world.run(1)
    world.add_replica()
    world.run(2)
    assert incident(world).number == number, "nothing has changed"
    for at in range(2, 8):
        arrive(world, f"r{at}")
    assert len(available(world)) == 15
    assert incident(world).over


def test_two_replicas_decide_one_incident() -> None:
    world = ten_workers(hashtags())
    world.add_replica()
    kill_eight(world)
    arrive(world, *(f"r{number}" for number in range(8)))
    world.run(1)
    assert len(available(world)) == 15
    assert incident(world).over
    assert world.replicas[0].core.reading.story == world.replicas[1].core.reading.story


def test_a_slot_whose_worker_is_gone_again_is_planned_again() -> None:
    world = kill_eight(ten_workers(hashtags()))
    world.add_worker(Worker("r0", "zr", slots=2))
    world.add_worker(Worker("r1", "zr", slots=2))
    while "r1" not in {place.worker for place in incident(world).places.values()}:
        world.run(0.01)
    world.kill("r1")
    arrive(world, "r2")
    assert available(world) == ["o0", "o1", "o2", "o3"]
    assert {world.leader_of(key(unit)) for unit in available(world)} == {"r0", "r2"}


@pytest.mark.slow
def test_without_further_workers_units_go_beyond_the_slots_in_the_end() -> None:
    """Else a cluster that is full would never be whole again."""
    world = kill_eight(ten_workers(hashtags()))
    arrive(world, "r0", "r1", "r2")
    world.run(10)
    assert len(available(world)) == 6
    world.run(12)
    assert len(available(world)) == 15
    assert incident(world).over


def test_nobody_waits_for_missing_slots_if_every_failed_worker_is_back() -> None:
    """The cluster was beyond its slots before."""
    workers = [Worker(f"w{number}", f"z{number}", slots=1) for number in (1, 2)]
    made = plan({f"u-{number}": "passive" for number in range(6)}, fail_stop_s=20, correlated_failure={"workers": 2})
    world = World(*workers, made=made).start(u_1="w2", u_3="w2", u_5="w2").settle()
    world.kill("w1")
    world.kill("w2")
    world.run(0.5)
    world.restart("w1")
    world.restart("w2")
    world.run(4)
    assert incident(world).over
    assert not world.unprotected()


def test_a_single_worker_that_fails_is_no_incident_and_its_units_are_placed_at_once() -> None:
    world = ten_workers(hashtags(), slots=4)
    world.kill("w3")
    world.run(0.1)
    assert not told(world)
    assert {world.leader_of(key("o4")), world.leader_of(key("o5"))} <= {f"w{n}" for n in range(1, 9)} - {"w3"}


def test_a_unit_waits_a_moment_for_a_free_slot_and_goes_beyond_then() -> None:
    world = ten_workers(hashtags())
    world.kill("w3")
    world.run(0.1)
    assert (world.leader_of(key("o4")), world.leader_of(key("o5"))) == ("w8", "w3"), "w8 has one free slot"
    world.run(0.5)
    assert world.leader_of(key("o5")) != "w3"
    assert not told(world)


def test_units_with_a_standby_never_enter_it() -> None:
    schemes = {"u-0": "passive-hot", "u-1": "passive", "u-2": "passive"}
    workers = [Worker(f"w{number}", f"z{number}", slots=3) for number in range(1, 5)]
    made = plan(schemes, correlated_failure={"workers": 2})
    world = World(*workers, made=made).start(u_0="w1", u_1="w1", u_2="w2").settle()
    assert [copy.worker for copy in world.change(key("u-0")).copies][:1] == ["w1"]
    standby = world.change(key("u-0")).copies[1].worker
    world.kill("w1")
    world.kill("w2" if standby != "w2" else "w3")
    world.settle()
    assert all("u-0" not in one.units for one in records(world))
    assert world.leader_of(key("u-0")) == standby


# -- scenarios that have gone wrong -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["stall", "silent"])
def test_without_exit_notices_missed_heartbeats_are_enough(fault: str) -> None:
    world = ten_workers(hashtags())
    for number in range(1, 9):
        if fault == "stall":
            world.stall(f"w{number}")
        else:
            world.kill(f"w{number}", notice=False)
    world.run(1)
    assert [len(available(arrive(world, f"r{number}"))) for number in range(2)] == [2, 4]


def test_workers_that_answer_again_before_they_were_replaced_end_it() -> None:
    world = ten_workers(hashtags())
    for number in range(1, 9):
        world.stall(f"w{number}")
    world.run(1)
    assert incident(world).units
    for number in range(1, 9):
        world.stall(f"w{number}", False)
    world.run(1)
    assert incident(world).over
    assert len(available(world)) == 15


def test_in_an_incident_nobody_waits_for_one_worker() -> None:
    """Under `none` a unit waits for its worker to return; where several have failed, any slot will do."""
    workers = [Worker(f"w{number}", f"z{number}") for number in (1, 2, 3)]
    made = plan({"u-0": "none", "u-1": "none"}, correlated_failure={"workers": 2})
    world = World(*workers, made=made).start(u_0="w1", u_1="w2").settle()
    world.kill("w1")
    world.run(0.5)
    assert world.leader_of(key("u-0")) == "w1"
    world.kill("w2")
    world.run(1)
    assert {world.leader_of(key("u-0")), world.leader_of(key("u-1"))} == {"w3"}


def test_the_same_worker_that_fails_twice_is_one() -> None:
    workers = [Worker(f"w{number}", f"z{number}") for number in (1, 2, 3)]
    made = plan({"u-0": "none"}, correlated_failure={"workers": 2})
    world = World(*workers, made=made).start().settle()
    for _ in range(3):
        world.kill("w1")
        world.run(0.3)
        world.restart("w1")
        world.run(1)
    assert not told(world)


def on_spark() -> World:
    """Unit s is Spark's, and runs on a driver; a and b run on workers. A query for each."""
    made = plan(
        dict.fromkeys("abs", "passive"), 20, priorities=dict.fromkeys("abs", 1), correlated_failure={"workers": 2}
    )
    units = tuple(msgspec.structs.replace(one, host="spark" if one.name == "s" else "") for one in made.units)
    workers = [Worker("w1", "a", slots=1), Worker("w2", "b", slots=1), Worker("d1", "a", slots=1, hosts="spark")]
    world = World(*workers, made=msgspec.structs.replace(made, units=units))
    return world.start(a="w1", b="w2", s="d1").settle()


def test_units_of_spark_belong_to_an_incident_and_wait_for_drivers() -> None:
    world = on_spark()
    for name in ("w1", "w2", "d1"):
        world.kill(name)
    world.run(1)
    assert incident(world).units == ("a", "b", "s")
    arrive(world, "r1", slots=2)
    assert incident(world).granted == ("a", "b")
    assert list(incident(world).waiting) == ["s"], "a free slot of a worker is of no use to it"
    world.add_worker(Worker("d2", "c", slots=1, hosts="spark"))
    world.run(2)
    assert world.leader_of(key("s")) == "d2"
    assert incident(world).over


def test_a_driver_counts_as_a_worker_that_has_failed() -> None:
    world = on_spark()
    world.kill("d1")
    world.kill("w1")
    world.run(1)
    assert incident(world).workers == ("d1", "w1")
    assert incident(world).units == ("a", "s")


def test_a_slot_that_another_replica_has_promised_to_a_unit_that_runs_here_is_not_free() -> None:
    """The failing history (simulation, profile `spark-incidents`, seed 19): one replica hears a worker again that the
    other one has given up. It plans without the unit of that worker, whose restore is on its way.
    """
    world = on_spark()
    world.kill("w1")
    world.kill("d1")
    world.run(1)
    promised = Incident(
        "job", G, incident(world).number + 1, ("w1", "d1"), ("a", "b", "s"), True,
        (Chosen("b", ("b",), 1.0, (Place("r1", "1"),)),), {"a": 1.0, "s": 1.0}, 1,
    )  # fmt: skip
    world.add_worker(Worker("r1", "c", slots=1))
    world.run(0.02)
    world.append("another", (), incidents=(promised,))
    world.run(0.9)
    assert incident(world) == promised, "b runs on w2, and may be about to be restored on r1"
    world.run(0.5)
    assert incident(world).granted == ("a",), "nobody has restored it there"
