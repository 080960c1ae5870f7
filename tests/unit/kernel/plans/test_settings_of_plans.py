"""Settings of a plan and its operators are decoded once, with defaults; a plan that does not decode is unsound."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from holdfast.schemas import plans
from holdfast.schemas.job_operators import OPERATORS
from holdfast.schemas.job_settings import FaultTolerance
from holdfast.schemas.jobs import Source
from holdfast.schemas.operator_settings import SETTINGS, OperatorSettings, PythonSettings, operator_settings
from holdfast.schemas.plan_settings import TolerancePlan, settings_of
from holdfast.schemas.plans import OperatorPlan, Plan
from holdfast.schemas.source_settings import SourceSettings
from holdfast.services.kernel.plans.soundness import unsound
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB


def plan_of_orders() -> Plan:
    return MemoryCluster(JOB).plan


def test_settings_that_a_plan_lacks_or_says_nothing_of_have_defaults() -> None:
    settings = structs.replace(plan_of_orders(), spec={"latency_ms": None, "on_error": "fail"}).settings
    assert (settings.latency_ms, settings.on_error, settings.dead_letter_share) == (None, "fail", 1.0)
    assert (settings.keep_dead_letters_s, settings.fault_tolerance) == (None, TolerancePlan())


def test_settings_are_decoded_once_and_change_no_record() -> None:
    plan = plan_of_orders()
    before = plans.encode(plan)
    assert plan.settings is plan.settings
    assert plans.encode(plan) == before
    assert plan == plan_of_orders()


@pytest.mark.parametrize(
    "wrong",
    [
        {"keep_cuts": "yes"},
        {"on_error": 5},
        {"replay_horizon_s": "1 h"},
        {"placement": []},
        {"queries": {"q": 1}},
        {"fault_tolerance": {"weights": {"cpu": -1}}},
        {"fault_tolerance": {"checkpoint": {"merge_ms": "5"}}},
    ],
)
def test_a_plan_whose_settings_do_not_decode_is_unsound(wrong: dict[str, Any]) -> None:
    plan = plan_of_orders()
    assert unsound(plan) == ""
    assert "settings of the job" in unsound(structs.replace(plan, spec=plan.spec | wrong))


def test_tolerance_that_a_plan_says_nothing_of_is_that_of_a_job_file() -> None:
    """So a plan of a former version, and one with all defaults of the job file, run alike."""
    declared = settings_of({"fault_tolerance": FaultTolerance().model_dump(mode="json")}).fault_tolerance
    assert structs.replace(declared, weights={}) == TolerancePlan()
    assert declared.weights == dict.fromkeys(declared.weights, 1.0)
    assert settings_of({"placement": {"spread_by": None}}).placement.spread_by == "zone"


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


NAMED = {"topic": "t", "query": "q", "partitions": 1}


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("source", {"max_ahead_s": "an hour"}),
        ("source", {"fields": {"a": 1}}),
        ("source", {"table": "k"}),
        ("sink", NAMED | {"partitions": "two"}),
        ("sink", NAMED | {"parquet": {"path": 1}}),
        ("sink", NAMED | {"sql": {"database": "d"}}),
    ],
)
def test_a_plan_whose_source_or_sink_does_not_decode_is_unsound(kind: str, wrong: dict[str, Any]) -> None:
    plan = plan_of_orders()
    others = plan.operators[1:]
    changed = structs.replace(plan.operators[0], kind=kind, params=wrong)
    assert f"settings of operator {changed.name}" in unsound(structs.replace(plan, operators=(changed, *others)))
    assert unsound(structs.replace(plan, operators=(structs.replace(changed, params=NAMED), *others))) == ""


def test_a_source_has_no_limit_of_times_ahead_if_its_plan_says_null_and_one_if_it_says_nothing() -> None:
    limits = [OperatorPlan("s", "source", 1, (), one, {}).source.max_ahead_s for one in ({}, {"max_ahead_s": None})]
    assert limits == [3600.0, None]


def test_the_settings_of_a_source_are_words_of_its_section() -> None:
    assert set(SourceSettings.__struct_fields__) <= Source.model_fields.keys()


@pytest.mark.parametrize("wrong", [{}, {"filter": 5}, {"filter": "x > 1", "one_of": "a"}, {"filter": "x", "late": 1}])
def test_a_plan_with_an_operator_whose_settings_do_not_decode_is_unsound(wrong: dict[str, Any]) -> None:
    plan = plan_of_orders()
    others = plan.operators[1:]
    changed = structs.replace(plan.operators[0], kind="filter", params=wrong)
    assert f"settings of operator {changed.name}" in unsound(structs.replace(plan, operators=(changed, *others)))
