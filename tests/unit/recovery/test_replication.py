"""A replication budget at run time: which units follow the plan, in which order, and when the plan changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from unittest import mock

import msgspec
import pytest

from holdfast.schemas import formats
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, ReplicationPlan, job_key, unit_key
from holdfast.schemas.costs import Costs
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Edge, OperatorPlan, Plan, SourcePlan, UnitPlan
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.standings import Standings
from holdfast.services.kernel.fidelity.of_job import Rates, budget_share
from holdfast.services.recovery.core.replication import measured, replanning
from holdfast.services.recovery.core.replication.answering import Answer, Question, answer
from holdfast.services.recovery.core.replication.replanning import REPLICA, holders
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import G, World

pytestmark = pytest.mark.slow

JOB = job_key("job", G)
SOURCES = 4
NAMES = [*(f"s-{task}" for task in range(SOURCES)), "k-0"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of all times of replanning, so that a test is seconds of its world."""
    for name in ("PACE_US", "COOL_DOWN_US"):
        monkeypatch.setattr(replanning, name, getattr(replanning, name) // 10)
    for name in ("WINDOW_US", "LEAST_US", "APART_US"):
        monkeypatch.setattr(measured, name, getattr(measured, name) // 10)


class Moving:
    """Rates of a job, and the newest ones."""

    def __init__(self, mean: Rates, newest: Rates | None = None) -> None:
        self._mean, self._newest = mean, mean if newest is None else newest

    def rates(self, recent: bool = False) -> Rates:
        return self._newest if recent else self._mean


def budgeted(share: float, base: str = "passive") -> Plan:
    """Four sources that one sink merges, a unit each."""
    units = tuple(
        UnitPlan(
            name,
            0 if name == "k-0" else int(name[2:]),
            ("sink-q" if name == "k-0" else "s",),
            place,
            base,
            planned=True,
        )
        for place, name in enumerate(NAMES)
    )
    operators = (
        OperatorPlan("s", "source", SOURCES, (), {}, {"x": "int"}),
        OperatorPlan("sink-q", "sink", 1, ("s",), {"query": "q", "topic": "q", "partitions": 1}, {"x": "int"}),
    )
    source = SourcePlan("s", "in", tuple((task,) for task in range(SOURCES)), dict.fromkeys(range(SOURCES), 0))
    tolerance = {"fail_stop_timeout_s": 3.0, "correlated_failure": {"workers": 9}, "replication_budget": share}
    edges = (Edge("s", "sink-q", 0, "merge", topic=f"holdfast.job.{G}.data.s.0"),)
    spec = {"fault_tolerance": tolerance, "queries": {"q": {}}}
    return Plan("job", G, Id("c", 1), spec, operators, edges, units, (source,), {}, 10, {"polars": "1"})


class Flow:
    """What leaders count, at rates that a test changes."""

    def __init__(self, *rates: float) -> None:
        self.rates, self._since_us, self._counted = list(rates), 0, [0.0] * len(rates)

    def change(self, now_us: int, *rates: float) -> None:
        self._counted = self.counted(now_us)
        self._since_us, self.rates = now_us, list(rates)

    def counted(self, now_us: int) -> list[float]:
        span_s = (now_us - self._since_us) / 1_000_000
        return [before + rate * span_s for before, rate in zip(self._counted, self.rates, strict=True)]

    def __call__(self, unit: str, now_us: int, leads: bool) -> Costs:
        name, counted = unit.rpartition("/")[2], self.counted(now_us)
        if not leads:
            return Costs(unit)
        if name == "k-0":
            records = int(sum(counted))
            return Costs(unit, leads=True, inputs={"s.0": (records, records)}, outputs={"sink-q": records})
        records = int(counted[int(name[2:])])
        return Costs(unit, leads=True, inputs={"s": (records, records)}, outputs={"s.0": records})


def world(
    share: float, flow: Flow | None = None, replicas: int = 2, base: str = "passive", format: int = formats.PLANS
) -> World:
    """Of whose records each is checked against the budget. format: in which the cluster writes."""
    made = World(*(Worker(f"w{n}") for n in range(4)), made=budgeted(share, base), replicas=replicas)
    made.measured = flow
    made.watchers.append(within(made))
    made.append("r", [], format=format)
    made.run(0.3)
    made.goal("run")
    return made


def within(made: World) -> Callable[[Change | None, Change], None]:
    allowed = int((budget_share(made.plan) or 0) * len(made.plan.units) + 1e-9)

    def watch(before: Change | None, change: Change) -> None:
        assert sum(holders(made.plan, made.checked).values()) <= allowed, made.story

    return watch


def held(made: World) -> set[str]:
    return {name for name, has in holders(made.plan, made.checked).items() if has}


def current(made: World) -> ReplicationPlan:
    plan = made.checked.replication(JOB)
    assert plan is not None
    return plan


def test_planned_units_get_a_replica_that_processes_and_no_other_does() -> None:
    made = world(0.6, Flow(1, 1, 1, 1))
    made.run(6).settle()
    assert current(made).number == 1
    assert held(made) == set(current(made).units)
    assert len(held(made)) == 3
    assert "k-0" in held(made)
    assert current(made).fidelity == pytest.approx(0.5)
    for name in NAMES:
        change = made.change(unit_key("job", G, name))
        assert change.scheme == (REPLICA if name in held(made) else "passive")
        assert (len(change.copies) == 2) == (name in held(made))
        assert change.plan == (1 if name in held(made) else 0)


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.19, 0), (0.4, 2), (1.0, 5)])
def test_the_budget_is_a_share_of_the_planned_units(share: float, count: int) -> None:
    made = world(share)
    made.run(6)
    assert len(held(made)) == count


def test_there_is_no_plan_before_every_process_reads_plans() -> None:
    made = world(0.6, Flow(1, 1, 1, 1), format=formats.PLANS - 1)
    made.run(6)
    assert made.checked.replication(JOB) is None
    assert held(made) == set()
    made.append("r", [], format=formats.PLANS)
    made.run(6).settle()
    assert len(held(made)) == 3


def test_a_rate_that_moves_changes_the_plan_once_and_the_replica_that_goes_goes_first() -> None:
    flow = Flow(50, 5, 5, 5)
    made = world(0.4, flow)
    made.run(12).settle()
    number = current(made).number
    assert held(made) == {"k-0", "s-0"}
    flow.change(made.now_us, 5, 5, 50, 5)
    made.run(16).settle()
    assert current(made).number == number + 1
    assert held(made) == {"k-0", "s-2"} == set(current(made).units)
    by_plan = [change for change in made.history if change.plan == number + 1]
    changed = [(change.unit.rpartition("/")[2], change.scheme) for change in by_plan]
    assert changed.index(("s-0", "passive")) < changed.index(("s-2", REPLICA))


def test_a_plan_by_rates_that_still_move_waits_until_the_newest_ones_agree() -> None:
    plan, mean = budgeted(0.6), Rates({"s": (30.0, 5.0, 25.0, 20.0)})
    for recent, moving in ((5.0, 5.0, 50.0, 40.0), True), ((30.0, 6.0, 24.0, 20.0), False):
        asked = Question(JOB, plan, 0.6, 1, ("k-0", "s-0", "s-1"), measured=Moving(mean, Rates({"s": recent})))
        found = answer(asked)
        assert (found.units, found.moving) == (("k-0", "s-0", "s-2"), moving)
        assert found.fidelity >= found.before + replanning.MARGIN
        known, assigned = replanning.Replication(), Assigned()
        known.admit(plan, 0)
        assigned.read(Assignment("r", 0, (), replications=(ReplicationPlan("job", G, 1, asked.present, 0.5),)))
        with mock.patch.object(replanning, "_placed", return_value=True):
            for _ in range(replanning.LOOKS):
                known._jobs[JOB].asking = asked
                known.answered(found, assigned, lambda: True, replanning.COOL_DOWN_US)
        assert [one.units for one in known.records] == ([] if moving else [found.units])


def test_plans_of_equal_worth_do_not_swap() -> None:
    flow = Flow(10, 10, 10, 10)
    made = world(0.4, flow)
    made.run(8)
    units = held(made)
    for _ in range(3):
        flow.change(made.now_us, 10, 10.4, 9.8, 10.1)
        made.run(4)
        flow.change(made.now_us, 10.2, 9.7, 10.4, 10)
        made.run(4)
    assert current(made).number == 1
    assert held(made) == units


def test_nothing_is_planned_again_while_a_worker_is_away() -> None:
    made = world(0.4, Flow(10, 10, 10, 10), replicas=1)
    made.run(8)
    number, units = current(made).number, current(made).units
    other = next(task for task in range(SOURCES) if f"s-{task}" not in units)
    rates = Rates({"s": tuple(90.0 if task == other else 1.0 for task in range(SOURCES))})
    found = answer(Question(JOB, made.plan, 0.4, number, units, measured=Moving(rates)))
    assert found.fidelity > found.before + replanning.MARGIN
    made.stall(made.leader_of(unit_key("job", G, "k-0")))
    made.run(0.5)
    known = made.replicas[0].core.known
    for calm in (known.at_rest(), True):
        known.replication._jobs[JOB].asking, known.replication._jobs[JOB].better = found.question, replanning.LOOKS
        known.replication.answered(found, known.assigned, partial(bool, calm), made.now_us + replanning.COOL_DOWN_US)
        assert [one.number for one in known.replication.records] == ([number + 1] if calm else [])


def test_a_unit_that_a_person_gave_a_scheme_leaves_the_plan() -> None:
    made = world(0.4, Flow(1, 1, 1, 1))
    made.run(5).settle()
    gone = next(name for name in held(made) if name != "k-0")
    made.ask("passive-hot", unit_key("job", G, gone))
    made.run(5).settle()
    assert made.change(unit_key("job", G, gone)).scheme == "passive-hot"


def test_a_planned_unit_whose_worker_dies_is_taken_over_by_its_replica() -> None:
    made = world(0.4, Flow(1, 1, 1, 1))
    made.run(5).settle()
    for name in sorted(held(made)):
        unit = unit_key("job", G, name)
        before = made.change(unit)
        made.kill(made.leader_of(unit))
        made.run(1)
        assert made.leader_of(unit) == before.copies[1].worker
        made.restart(before.copies[0].worker)
        made.run(4).settle()
        assert made.change(unit).scheme == REPLICA


# -- what the log says ------------------------------------------------------------------------------------------------


def _plan(number: int, *units: str) -> ReplicationPlan:
    return ReplicationPlan("job", G, number, units, 0.5)


def _record(*changes: Change, plans: tuple[ReplicationPlan, ...] = ()) -> Assignment:
    return Assignment("r", 1, changes, replications=plans)


def test_the_first_of_two_plans_that_were_made_at_once_counts() -> None:
    assigned = Assigned()
    assigned.read(_record(plans=(_plan(1, "s-0"), _plan(1, "s-1"))))
    assigned.read(_record(plans=(_plan(3, "s-2"),)))
    assert assigned.replication(JOB) == _plan(1, "s-0")
    assigned.read(_record(plans=(_plan(2, "s-2"),)))
    assert assigned.replication(JOB) == _plan(2, "s-2")


def test_a_change_by_an_older_plan_is_not_valid() -> None:
    unit, assigned = unit_key("job", G, "s-0"), Assigned()
    assigned.read(_record(Change(unit, 1), plans=(_plan(1, "s-0"),)))
    assigned.read(_record(plans=(_plan(2, "s-1"),)))
    assert not assigned.read(_record(Change(unit, 2, plan=1)))
    assert assigned.read(_record(Change(unit, 2, plan=2)))
    assigned.read(_record(plans=(_plan(3, "s-1"),)))
    assert assigned.read(_record(Change(unit, 3, plan=2))), "what follows for another reason keeps its number"
    assert not assigned.read(_record(Change(unit, 4, plan=0)))


def test_a_snapshot_holds_the_plan_and_a_fold_that_begins_with_it_continues_the_same() -> None:
    standings = Standings()
    standings.read(0, _record(plans=(_plan(1, "s-0"),)))
    snapshot = standings.snapshot()
    assert snapshot.replications[0].plan == _plan(1, "s-0")
    other = Standings.of(msgspec.json.decode(msgspec.json.encode(snapshot), type=type(snapshot)))
    for each in (standings, other):
        each.read(1, _record(plans=(_plan(1, "s-3"),)))
        each.read(2, _record(plans=(_plan(2, "s-1"),)))
    assert standings.snapshot() == other.snapshot()
    assert standings.check(9, other.snapshot())


def test_an_answer_keeps_the_parts_of_the_present_plan_that_cost_little() -> None:
    plan = budgeted(0.4)
    rates = Rates({"s": (10.0, 10.05, 10.0, 10.0)})
    assert answer(Question(JOB, plan, 0.4, 1, ("k-0", "s-0"), measured=Moving(rates))).units == ("k-0", "s-0")
    rates = Rates({"s": (10.0, 20.0, 10.0, 10.0)})
    found = answer(Question(JOB, plan, 0.4, 1, ("k-0", "s-0"), measured=Moving(rates)))
    assert found.units == ("k-0", "s-1")
    assert found.fidelity == pytest.approx(0.4)
    assert found.before == pytest.approx(0.2)


def test_a_replica_that_goes_goes_before_another_unit_gets_one() -> None:
    known, assigned = replanning.Replication(), Assigned()
    known.admit(budgeted(0.4), 0)
    schemes = {"s-0": "passive", "s-2": REPLICA, "k-0": REPLICA, "s-1": "passive", "s-3": "passive"}
    copy = Copy("w", "i", PRIMARY)
    changes = [Change(unit_key("job", G, name), 1, (copy,), scheme) for name, scheme in schemes.items()]
    assigned.read(_record(*changes, plans=(_plan(1, "k-0", "s-2"),)))
    assigned.read(_record(plans=(_plan(2, "k-0", "s-0"),)))

    def directed() -> dict[str, str]:
        known.look(assigned, lambda unit: 3, lambda: False, 0)
        found = {name: known.directed(unit_key("job", G, name)) for name in schemes}
        return {name: one.scheme for name, one in found.items() if one is not None}

    assert directed() == {"s-2": "passive"}
    assigned.read(_record(Change(unit_key("job", G, "s-2"), 2, (copy,), "passive", plan=2)))
    assert directed() == {"s-0": REPLICA}
    assigned.read(_record(Change(unit_key("job", G, "s-0"), 2, (copy,), REPLICA, plan=2)))
    assert directed() == {}


def _directing(share: float, schemes: dict[str, str], unplaced: str = "") -> tuple[replanning.Replication, Assigned]:
    """A replica that knows the job, and whose units have these schemes under plan 1. unplaced: has no copies."""
    known, assigned = replanning.Replication(), Assigned()
    known.admit(budgeted(share), 0)
    changes = [
        Change(unit_key("job", G, name), 1, () if name == unplaced else (Copy("w", "i", PRIMARY),), scheme)
        for name, scheme in schemes.items()
    ]
    assigned.read(_record(*changes, plans=(_plan(1, "k-0", "s-0", "s-1"),)))
    return known, assigned


def _directed(known: replanning.Replication, assigned: Assigned, own: str = "") -> dict[str, str]:
    known.look(assigned, lambda unit: 9 if unit == unit_key("job", G, own) else 0, lambda: False, 0)
    found = {name: known.directed(unit_key("job", G, name)) for name in NAMES}
    return {name: one.scheme for name, one in found.items() if one is not None}


def test_a_unit_without_copies_keeps_its_room_so_that_a_replica_that_knows_its_placement_changes_no_other() -> None:
    schemes = {"s-0": "passive", "s-1": "passive", "s-2": "passive", "s-3": "passive", "k-0": REPLICA}
    known, assigned = _directing(0.4, schemes)
    assert _directed(known, assigned) == {"s-0": REPLICA}
    known, assigned = _directing(0.4, schemes, unplaced="s-0")
    assert _directed(known, assigned) == {}


def test_a_plan_that_is_too_large_since_a_unit_has_a_scheme_of_its_own_is_cut_to_the_budget_that_is_left() -> None:
    known, assigned = _directing(
        0.6, dict.fromkeys(("k-0", "s-0", "s-1"), REPLICA) | dict.fromkeys(NAMES[2:4], "passive")
    )
    assert _directed(known, assigned) == {}
    assert _directed(known, assigned, own="s-2") == {"s-1": "passive"}


def test_the_cool_down_of_a_plan_that_was_made_before_a_replica_began_is_awaited() -> None:
    known, assigned = _directing(0.4, dict.fromkeys(NAMES, "passive"))
    assigned = Assigned(assigned.units().values(), replications=[_plan(1, "k-0", "s-0")])
    for now_us, proposed in ((0, []), (replanning.COOL_DOWN_US // 2, []), (replanning.COOL_DOWN_US, [2])):
        for _ in range(replanning.LOOKS):
            question = Question(JOB, budgeted(0.4), 0.4, 1, ("k-0", "s-0"))
            known._jobs[JOB].asking = question
            known.answered(Answer(question, ("k-0", "s-1"), 0.5, 0.1), assigned, lambda: True, now_us)
        assert [one.number for one in known.records] == proposed
