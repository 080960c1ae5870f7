"""Which state a job takes over of another one, and why not."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan
from holdfast.schemas.savepoints import Start
from holdfast.services.kernel.operators.catalogue import describe
from holdfast.services.planning.carried_state import carried, problems, rescaled
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.plan import make_plan
from tests.unit.planning import jobs

BASE: dict[str, Any] = {
    "few": {"filter": "x > 0", "input": "s"},
    "sums": {"aggregate": {"n": "count()"}, "key": ["x"], "input": "few", "parallelism": 2},
    "best": {"top": {"k": 2, "by": "y"}, "key": ["x"], "input": "few", "parallelism": 2},
    "beside": {"join": {"left": "few", "right": "t", "on": ["x"]}, "parallelism": 2},
}


def planned(**changed: Any) -> Plan:
    operators = {name: one for name, one in {**BASE, **changed}.items() if one is not None}
    sources = {"s": jobs.source("in", parallelism=2), "t": jobs.source("side", table=["x"])}
    queries = {name: jobs.query(name, f"{name}-out") for name in operators if name not in ("few", "some")}
    return make_plan(
        interpret(jobs.job(operators, sources, queries)), generation=jobs.GENERATION, id=Id("c", 1), topics=None,
        first={}, prefix="holdfast", versions={}, allow=(), describe=describe,
    )  # fmt: skip


def fates(new: Plan, start: Start = Start("", "")) -> dict[str, tuple[str, str]]:  # noqa: B008
    return {one.name: (one.fate.value, one.why) for one in carried(planned(), new, start)}


def test_state_is_split_over_other_tasks_where_its_keys_say_whose_it_is() -> None:
    new = planned(**{name: {**BASE[name], "parallelism": 4} for name in ("sums", "best", "beside")})
    found = fates(new)
    assert found["sums"] == found["beside"] == ("kept", "its state, split by key over 4 tasks, from 2")
    assert found["best"] == ("cannot be kept", "it had 2 tasks, and has 4: state of top cannot be split by key")
    assert rescaled(planned(), new, Start("", "")) == ("sums", "beside")


def test_an_operator_keeps_its_state_under_a_new_name_and_joins_follow_their_inputs() -> None:
    new = planned(
        few=None,
        sums=None,
        some=BASE["few"],
        totals={**BASE["sums"], "input": "some"},
        best={**BASE["best"], "input": "some"},
        beside={"join": {**BASE["beside"]["join"], "left": "some"}, "parallelism": 2},
    )
    assert fates(new)["sums"][0] == "cannot be kept"
    found = fates(new, Start("", "", renamed={"totals": "sums"}))
    assert found["totals"] == ("kept", "its state of sums")
    assert {name for name, (fate, _) in found.items() if fate == "kept"} == {"s", "t", "best", "beside", "totals"}
    assert "sums" not in found


@pytest.mark.parametrize(
    ("renamed", "said"),
    [
        ({"totls": "sums"}, "the new job has no operator or source 'totls'"),
        ({"sums": "sms"}, "there was no operator or source 'sms'"),
        ({"sums": "best", "beside": "best"}, "'best' is to be two operators"),
    ],
)
def test_names_that_are_none_are_refused(renamed: dict[str, str], said: str) -> None:
    found = [one.message for one in problems(planned(), planned(), Start("", "", renamed=renamed))]
    assert said in found
