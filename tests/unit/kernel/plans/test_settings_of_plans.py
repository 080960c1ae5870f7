"""Settings of a plan are decoded once; an old plan has defaults, and a plan that does not decode is unsound."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from holdfast.schemas import plans
from holdfast.schemas.plans import Plan
from holdfast.services.kernel.plans.soundness import unsound
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB


def plan_of_orders() -> Plan:
    return MemoryCluster(JOB).plan


def test_settings_that_a_plan_lacks_or_says_nothing_of_have_defaults() -> None:
    settings = structs.replace(plan_of_orders(), spec={"latency_ms": None, "on_error": "fail"}).settings
    assert (settings.latency_ms, settings.on_error, settings.dead_letter_share) == (None, "fail", 1.0)
    assert (settings.keep_dead_letters_s, settings.fault_tolerance, settings.tables) == (None, {}, frozenset())


def test_settings_are_decoded_once_and_change_no_record() -> None:
    plan = plan_of_orders()
    before = plans.encode(plan)
    assert plan.settings is plan.settings
    assert plans.encode(plan) == before
    assert plan == plan_of_orders()


@pytest.mark.parametrize(
    "wrong", [{"keep_cuts": "yes"}, {"on_error": 5}, {"replay_horizon_s": "1 h"}, {"placement": []}]
)
def test_a_plan_whose_settings_do_not_decode_is_unsound(wrong: dict[str, Any]) -> None:
    plan = plan_of_orders()
    assert unsound(plan) == ""
    assert "settings of the job" in unsound(structs.replace(plan, spec=plan.spec | wrong))
