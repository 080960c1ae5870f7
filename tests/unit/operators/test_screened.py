"""A row at which the argument of an aggregate fails is a dead letter; the others count as if it were not there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.schemas.operator_settings import operator_settings
from holdfast.services.kernel.errors import InvalidRecord
from holdfast.services.kernel.operators.catalogue import KINDS
from tests.support.operators import Harness

MATCHES = "max(CASE WHEN REGEXP_LIKE('aa', s) THEN n ELSE 0 END)"
FIELDS = {"n": "int", "s": "string"}
SECOND = 1_000_000


def params(window: dict[str, int] | None, on_error: str = "dead-letter", emit: str = "final") -> dict[str, Any]:
    made: dict[str, Any] = {"aggregate": {"m": MATCHES, "c": "count()"}, "key": [], "window": window, "emit": emit}
    return made | {"on_error": on_error, "late": "topic"}


def rows(*texts: str, start: int = 0) -> list[dict[str, Any]]:
    return [{"n": n, "s": text, "_time": (start + n) * SECOND} for n, text in enumerate(texts)]


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("window", [None, {"size_s": 100, "slide_s": 100}])
def test_the_row_is_refused_and_the_others_are_aggregated(window: dict[str, int] | None, size: int) -> None:
    task, given = Harness("aggregate", params(window), FIELDS), rows("a", "(", "b", "a", "a(")
    for start in range(0, 5, size):
        task.run(given[start : start + size])
    (last,) = task.end()
    assert (last["m"], last["c"]) == (3, 3)
    refused = [one for outcome in task.outcomes for one in outcome.refused]
    assert [json.loads(one.row)["s"] for one in refused] == ["(", "a("]
    assert [one.place for one in refused] == [1 % size, 4 % size]
    assert all("regex parse error: unclosed group" in one.reason for one in refused)


def test_a_late_row_beside_it_keeps_its_place() -> None:
    task = Harness("aggregate", params({"size_s": 10, "slide_s": 10}), FIELDS)
    task.run(rows("a", start=50), watermark=50 * SECOND)
    task.run(rows("(", "a", "(", "a"), watermark=50 * SECOND)
    assert [(one.place, one.reason == "late") for one in task.outcomes[-1].refused] == [
        (0, False), (2, False), (1, True), (3, True)
    ]  # fmt: skip


def test_on_error_fail_stops_the_job_and_a_plan_of_before_says_nothing_of_it() -> None:
    with pytest.raises(InvalidRecord, match="regex"):
        Harness("aggregate", params(None, "fail"), FIELDS).run(rows("a", "("))
    kind = KINDS["aggregate"]
    plans = [params(None, how) | {"late": "drop"} for how in ("dead-letter", "fail")]
    plans.append({name: one for name, one in plans[0].items() if name != "on_error"})
    assert [kind.delivers(operator_settings("aggregate", one)) for one in plans] == [True, False, False]
