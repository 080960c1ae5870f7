"""Which units have a replica, and why, as `holdfast explain` says it."""

from __future__ import annotations

import pytest

from holdfast.schemas.assignments import ReplicationPlan
from holdfast.services.kernel.fidelity.of_job import Rates
from holdfast.services.view.replicas import replicas
from tests.unit.recovery.test_replication import budgeted
from tests.unit.recovery.world import G

SCHEMES = {"k-0": "active-standby", "s-0": "active-standby"}


def test_each_unit_says_what_its_replica_decides_and_what_would_come_next() -> None:
    plan, current = budgeted(0.4), ReplicationPlan("job", G, 3, ("k-0", "s-0"), 0.5)
    found = replicas(plan, current, SCHEMES, Rates({"s": (5.0, 3.0, 1.0, 1.0)}))
    assert found is not None
    assert (found.number, found.budget, found.left_out) == (3, 2, 0)
    assert found.fidelity == pytest.approx(0.5)
    assert found.queries == {"q": pytest.approx(0.5)}
    assert {one.unit: (one.planned, one.scheme, round(one.lost, 3)) for one in found.units} == {
        "s-0": (True, "active-standby", 0.5),
        "s-1": (False, "-", 0.3),
        "s-2": (False, "-", 0.1),
        "s-3": (False, "-", 0.1),
        "k-0": (True, "active-standby", 0.5),
    }
    assert found.following == ("s-1",)
    assert found.following_fidelity == pytest.approx(0.8)


def test_without_a_plan_nothing_is_left_and_without_a_budget_nothing_is_said() -> None:
    found = replicas(budgeted(0.4), None, {}, Rates())
    assert found is not None
    assert (found.number, found.fidelity) == (0, 0.0)
    plan = budgeted(0.4)
    plan.spec["fault_tolerance"].pop("replication_budget")
    assert replicas(plan, None, {}, Rates()) is None
