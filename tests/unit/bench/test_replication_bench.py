"""The bench of a replication budget: its job, and the change by which another copy leads a unit."""

from __future__ import annotations

from collections import Counter

from bench.measures.replication import Holding
from bench.measures.turns import edges_of, plan_of
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Flags, ReplicationPlan, unit_key
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.recovery.core.replication.replanning import REPLICA

PLAN = plan_of(16)


def test_sixteen_sources_merge_two_and_two_down_to_one_unit_with_the_sink() -> None:
    levels = Counter(unit.operators for unit in PLAN.units)
    assert list(levels.values()) == [16, 8, 4, 2, 1]
    assert all(unit.planned for unit in PLAN.units)
    assert edges_of(PLAN, ("events",)) == ([], ["events.0"])
    assert edges_of(PLAN, ("one", "sink-counts")) == (["merge2.0"], ["sink-counts"])


def test_the_successor_is_the_first_other_leader_and_replicas_are_counted_at_each_record() -> None:
    one, two, assigned = Copy("w1", "1", PRIMARY), Copy("w2", "1", Flags(send=False, commit=False)), Assigned()
    holding, units = Holding(PLAN), [unit_key(PLAN.job, PLAN.generation, f"events-{task}") for task in (0, 1)]
    planned = ReplicationPlan(PLAN.job, PLAN.generation, 1, ("events-0", "events-1"), 0.5, 0.0)
    later = Copy("w3", "1", PRIMARY)
    records = [
        [Change(unit, 1, (one,), "passive") for unit in units],
        [Change(unit, 2, (one, two), REPLICA, plan=1) for unit in units],
        [Change(units[0], 3, (Copy("w2", "1", PRIMARY),), REPLICA, plan=1), Change(units[1], 3, (one,), plan=1)],
        [Change(units[0], 4, (later,), REPLICA, plan=1)],
    ]
    assigned.read(Assignment("r", 0, (), replications=(planned,)))
    for changes in records:
        assigned.read(Assignment("r", 0, tuple(changes)))
        holding.read(assigned)
    assert holding.most == 2
    found = holding.successor("events-0", records[1][0])
    assert found is not None
    assert (found.epoch, found.committer) == (3, Copy("w2", "1", PRIMARY))
    assert holding.successor("events-1", records[1][1]) is None
