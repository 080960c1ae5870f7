"""Units that failed together: every row of the table of incident.py, the paper's staircase on workers, stories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import msgspec
import pytest

from holdfast.schemas.assignments import Assignment, CheckpointPolicy, GlobalCheckpoint, unit_key
from holdfast.schemas.costs import Costs
from holdfast.schemas.decided import Id
from holdfast.schemas.incidents import Chosen, Incident, Place
from holdfast.schemas.plans import Edge, OperatorPlan, Plan, UnitPlan
from holdfast.services.recovery.core.job.incident import TRANSITIONS, Move, Phase, Scene, Sign, next_record, phase
from holdfast.services.recovery.core.job.recovery_plan import Query
from tests.unit.recovery.world import G, Worker, World, plan

P, S = Phase, Sign
WINDOWS = [f"o{number}" for number in range(4)]
SUBSETS = [subset for size in (2, 3, 4) for subset in combinations(WINDOWS, size)]
NEEDS = {name: ("parser",) for name in WINDOWS} | {f"o{4 + at}": subset for at, subset in enumerate(SUBSETS)}
"""Of the 15 queries of MECHANISMS R8, what each reads."""


def hashtags(priorities: Mapping[str, int] | None = None, **tolerance: Any) -> Plan:
    """One task of each operator, in a unit of its own."""
    names = ("source", "parser", *NEEDS)
    operators = [OperatorPlan(name, "filter", 1, (), {"filter": "true"}, {}) for name in names]
    operators += [
        OperatorPlan(f"sink-{name}", "sink", 1, (), {"query": name, "topic": name, "partitions": 1}, {})
        for name in NEEDS
    ]
    edges = [Edge("source", "parser", 0, "forward")]
    edges += [Edge(above, name, 0, "forward") for name, reads in NEEDS.items() for above in reads]
    edges += [Edge(name, f"sink-{name}", 0, "forward") for name in NEEDS]
    units = [UnitPlan(name, 0, (name, f"sink-{name}") if name in NEEDS else (name,), 0, "passive") for name in names]
    spec = {
        "fault_tolerance": {"fail_stop_timeout_s": 20, **tolerance},
        "queries": {name: {"priority": (priorities or {}).get(name, 1)} for name in NEEDS},
    }
    return Plan("job", G, Id("c", 1), spec, tuple(operators), tuple(edges), tuple(units), (), {}, 10, {})


def key(unit: str) -> str:
    return unit_key("job", G, unit)


def ten_workers(made: Plan, slots: int = 2) -> World:
    """Source and parser on w0, whose slots they fill; two queries on each of the eight others."""
    workers = [Worker("w0", "z0", slots=2), *(Worker(f"w{n}", f"z{n}", slots=slots) for n in range(1, 9))]
    where = {name: f"w{1 + at // 2}" for at, name in enumerate(NEEDS)} | {"source": "w0", "parser": "w0"}
    return World(*workers, made=made).start(**where).settle()


def kill_eight(world: World) -> World:
    for number in range(1, 9):
        world.kill(f"w{number}")
    return world.run(1)


def arrive(world: World, *names: str, slots: int = 2) -> World:
    for name in names:
        world.add_worker(Worker(name, f"z{name}", slots=slots))
    return world.run(1.5)


def available(world: World) -> list[str]:
    """The queries all of whose units run on workers that live."""

    def runs(unit: str) -> bool:
        worker = world.workers[world.leader_of(key(unit))]
        return (
            worker.alive
            and not worker.stalled
            and key(unit) in worker.copies
            and worker.copies[key(unit)].state == "running"
        )

    needed = {name: {name, *reads, "source", "parser"} for name, reads in NEEDS.items()}
    return [name for name, units in needed.items() if all(map(runs, units))]


def incident(world: World) -> Incident:
    found = world.checked.incident(f"job@{G}")
    assert found is not None
    return found


def told(world: World) -> list[str]:
    return [line for line in world.story if line.startswith("incident")]


def epochs(world: World) -> dict[str, int]:
    return {unit: world.change(unit).epoch for unit in world.units}


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


def records(world: World) -> list[Incident]:
    return [one for record in world.log for one in record.incidents]


# -- lines ------------------------------------------------------------------------------------------------------------


def aligned(buffering: str, **tolerance: Any) -> World:
    """Its newest global checkpoint is that of batch 20."""
    made = hashtags(buffering=buffering, checkpoint={"policy": "aligned"}, **tolerance)
    world = ten_workers(made)
    complete(world, 20)
    return world.run(0.2)


def complete(world: World, batch: int, line: int = 0) -> None:
    stated = Assignment("controller", 0, (), checkpoints=(GlobalCheckpoint("job", G, batch, 3, line),))
    world.checked.read(stated)
    world.log.append(stated)


def lines(world: World, units: Iterable[str]) -> set[tuple[int, int]]:
    return {(world.change(key(unit)).line, world.change(key(unit)).back) for unit in units}


def test_under_adaptive_buffering_units_begin_again_at_the_global_checkpoint_on_one_line() -> None:
    world = kill_eight(aligned("adaptive"))
    arrive(world, "r0")
    arrive(world, "r1")
    back = available(world)
    assert len(back) == 4
    assert lines(world, back) == {(1, 20)}
    assert lines(world, ["o14"]) == {(0, 0)}
    assert lines(world, ["source", "parser"]) == {(1, 20)}, "what they have sent since is trimmed"
    assert (incident(world).line, incident(world).blocking) == (1, False)
    assert incident(world).above == ("parser", "source")
    world.kill("r1")
    arrive(world, "r2")
    assert lines(world, back) == {(1, 20)}, "what has newly failed continues on the line"
    arrive(world, *(f"r{number}" for number in range(3, 9)))
    assert lines(world, NEEDS) == {(1, 20)}
    assert incident(world).over


def test_a_global_checkpoint_that_is_complete_meanwhile_is_where_the_others_begin() -> None:
    world = kill_eight(aligned("adaptive"))
    arrive(world, "r0")
    back = available(world)
    complete(world, 30, 1)
    arrive(world, *(f"r{number}" for number in range(1, 8)))
    assert lines(world, back) == {(1, 20)}
    assert lines(world, set(NEEDS) - set(back)) == {(1, 30)}


def test_under_source_buffering_nothing_is_restored_before_all_is() -> None:
    """The baseline: blocking recovery, which is 0 until the eighth worker."""
    world, stairs = kill_eight(aligned("source")), []
    for number in range(8):
        stairs.append(len(available(arrive(world, f"r{number}"))))
    assert stairs == [0] * 7 + [15]
    assert lines(world, NEEDS) == {(1, 20)}
    assert incident(world).over


def test_below_n_workers_adaptive_recovery_is_blocking_and_widens_once_there_are_n() -> None:
    world = aligned("adaptive")
    world.kill("w1")
    world.run(0.5)
    assert incident(world).blocking
    world.kill("w2")
    world.run(0.5)
    assert not incident(world).blocking
    assert incident(world).workers == ("w1", "w2")


def test_senders_to_a_unit_go_back_before_it_and_others_continue() -> None:
    """w3 has o4, which reads o0 and o1, and o5, which reads o0 and o2."""
    world = aligned("source")
    world.kill("w3")
    arrive(world, "r0")
    gone, above = ["o4", "o5"], ["o0", "o1", "o2", "parser", "source"]
    assert lines(world, [*gone, *above]) == {(1, 20)}
    assert lines(world, ["o3", *(f"o{n}" for n in range(6, 15))]) == {(0, 0)}
    order = [change.unit.rpartition("/")[2] for change in world.history if change.line == 1]
    for unit, senders in {"o4": ("o0", "o1"), "o5": ("o0", "o2"), "o0": ("parser",), "parser": ("source",)}.items():
        assert all(order.index(one) < order.index(unit) for one in senders), order
    assert incident(world).over


def test_senders_to_units_that_wait_for_a_slot_go_back_at_once_and_once() -> None:
    world = aligned("source")
    world.kill("w3")
    world.run(1.5)
    assert lines(world, ["o4", "o5"]) == {(0, 0)}
    assert lines(world, ["o0", "o1", "o2", "parser", "source"]) == {(1, 20)}
    world.kill("w4")
    arrive(world, "r0", "r1")
    assert lines(world, ["o4", "o5", "o6", "o7", "o3"]) == {(1, 20)}, "o7 reads o1 and o3"
    assert sum(change.unit == key("source") and change.line == 1 for change in world.history) == 1


def test_a_unit_that_has_ended_does_not_go_back() -> None:
    world = aligned("source")
    world.end(key("source"))
    world.run(0.5)
    world.kill("w3")
    arrive(world, "r0")
    assert lines(world, ["source"]) == {(0, 0)}
    assert lines(world, ["parser", "o4"]) == {(1, 20)}


def test_a_policy_that_changes_meanwhile_takes_nobody_back_any_more() -> None:
    """Each is restored at its own newest checkpoint, from where on all that it needs is kept."""
    world = aligned("source")
    world.kill("w3")
    world.run(0.02)
    sweep = CheckpointPolicy("job", G, 50, "sweep", 500, 0, 1_000, 10, 50)
    record = Assignment("controller", 0, (), policies=(sweep,))
    world.checked.read(record)
    world.log.append(record)
    arrive(world, "r0")
    assert available(world) == list(NEEDS)
    assert lines(world, ["o4", "o5"]) == {(0, 0)}
    assert incident(world).over


def test_a_unit_that_is_asked_to_go_back_takes_with_it_all_that_send_to_it() -> None:
    world = aligned("source")
    world.go_back(key("o4"))
    world.run(0.5)
    assert lines(world, ["source", "parser", "o0", "o1", "o4"]) == {(1, 20)}
    assert lines(world, ["o2", "o3", "o5", "o14"]) == {(0, 0)}
    order = [change.unit.rpartition("/")[2] for change in world.history if change.line == 1]
    assert order.index("source") < order.index("parser") < order.index("o0") < order.index("o4")


def test_under_another_policy_each_unit_begins_at_its_own_newest_checkpoint() -> None:
    world = kill_eight(ten_workers(hashtags(buffering="adaptive")))
    arrive(world, *(f"r{number}" for number in range(8)))
    assert len(available(world)) == 15
    assert lines(world, NEEDS) == {(0, 0)}


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
