"""Settings of a plan and its operators are decoded once, with defaults; a plan that does not decode is unsound."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from holdfast.schemas import plans
from holdfast.schemas.job_operators import OPERATORS
from holdfast.schemas.operator_settings import SETTINGS, OperatorSettings, PythonSettings, operator_settings
from holdfast.schemas.plans import OperatorPlan, Plan
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


ELSEWHERE = {"input", "parallelism", "union"}
"""Words of an operator's section that are fields of its plan: its inputs and its number of tasks."""


@pytest.mark.parametrize("kind", SETTINGS)
def test_the_settings_of_a_kind_have_the_words_of_its_section(kind: str) -> None:
    words = {name for name in OPERATORS[kind].model_fields if name not in ELSEWHERE}
    assert words - {"mode"} <= set(SETTINGS[kind].__struct_fields__), "the mode of Spark is in the plan of its driver"


def test_each_kind_of_a_plan_has_settings() -> None:
    assert SETTINGS.keys() == OPERATORS.keys() - {"sql"}, "a query in SQL becomes other operators"


def test_settings_of_an_operator_are_decoded_once_and_change_no_record() -> None:
    plan = plan_of_orders()
    before = plans.encode(plan)
    for operator in plan.operators:
        assert operator.settings is operator.settings
        assert isinstance(operator.settings, SETTINGS.get(operator.kind, OperatorSettings))
    assert plans.encode(plan) == before
    assert plan == plan_of_orders()


def test_settings_that_the_plan_of_an_operator_lacks_have_the_values_of_former_versions() -> None:
    code = operator_settings("python", {"python": "mine.code:Code", "ask": None})
    assert isinstance(code, PythonSettings)
    assert (code.module, code.ask, code.on_error, code.keeps_late, code.stops) == ("mine.code", None, "", False, False)
    assert operator_settings("select", {"select": ["x"], "on_error": "retry"}).stops
    assert OperatorPlan("o", "filter", 1, (), {"filter": "x"}, {}).python.module == ""


@pytest.mark.parametrize("wrong", [{}, {"filter": 5}, {"filter": "x > 1", "one_of": "a"}, {"filter": "x", "late": 1}])
def test_a_plan_with_an_operator_whose_settings_do_not_decode_is_unsound(wrong: dict[str, Any]) -> None:
    plan = plan_of_orders()
    others = plan.operators[1:]
    changed = structs.replace(plan.operators[0], kind="filter", params=wrong)
    assert f"settings of operator {changed.name}" in unsound(structs.replace(plan, operators=(changed, *others)))
