"""Which versions may lead a unit, as its last change says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Differing, Unshown, decode, encode
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import OperatorPlan, Plan, UnitPlan
from holdfast.services.kernel.plans.pinning import ANY, Fit, Pin, pins

UNIT = "job@1-abcdef/u-0"
PIN = Pin(planned="polars 1")
LED = Change(UNIT, 4, (Copy("w1", "1", PRIMARY),), shown=("polars 1", "polars 2"))


def plan(host: str = "", **spec: Any) -> Plan:
    operators = (
        OperatorPlan("score", "python", 1, (), {"python": "scoring.models:Score"}, {}),
        OperatorPlan("count", "aggregate", 1, (), {}, {}),
    )
    units = (UnitPlan("u-0", 0, ("count",), 0, host=host), UnitPlan("u-1", 0, ("count", "score"), 1))
    versions = {"polars": "1", "code scoring": "aa"}
    return Plan("job", "1-abcdef", Id("c", 1), spec, operators, (), units, (), {}, 10, versions)


@pytest.mark.parametrize(
    ("change", "version", "fit"),
    [
        (Change(UNIT, 0), "7", Fit.EQUAL),
        (LED, "1", Fit.EQUAL),
        (LED, "2", Fit.EQUAL),
        (LED, "3", Fit.UNSHOWN),
        (msgspec.structs.replace(LED, differ=(Differing("polars 3", "w2", 7),)), "3", Fit.DIFFERS),
        (msgspec.structs.replace(LED, shown=()), "1", Fit.EQUAL),
        (msgspec.structs.replace(LED, shown=()), "2", Fit.UNSHOWN),
    ],
    ids=["never placed", "its first", "a later one", "unknown", "known to differ", "of the plan", "not of the plan"],
)
def test_the_fit_of_a_worker_follows_from_its_versions(change: Change, version: str, fit: Fit) -> None:
    assert PIN.fit(change, {"polars": version}) is fit
    assert PIN.fit(change, {}) is Fit.EQUAL, "a worker that says nothing is trusted"
    assert ANY.fit(change, {"polars": version}) is Fit.EQUAL


def test_a_unit_is_pinned_by_what_its_operators_are_made_of() -> None:
    found = pins(plan())
    assert found[UNIT] == Pin(planned="polars 1")
    assert found["job@1-abcdef/u-1"] == Pin(("scoring.models",), planned="code scoring aa, polars 1")


def test_nothing_pins_a_unit_on_spark_nor_a_job_whose_bytes_may_differ() -> None:
    assert pins(plan(host="spark"))[UNIT] == ANY
    assert set(pins(plan(on_divergence="continue")).values()) == {ANY}


def test_versions_in_messages_survive_the_log() -> None:
    change = msgspec.structs.replace(
        LED,
        copies=(*LED.copies, Copy("w2", "1", msgspec.structs.replace(PRIMARY, send=False, commit=False))),
        unshown=(Unshown("w2", "polars 3"),),
        differ=(Differing("polars 4", "w2", cause="stopped: no such function"),),
    )
    assert decode(encode(Assignment("r", 1, (change,)))).changes == (change,)
    assert change.unshown_of(change.copies[1]) == Unshown("w2", "polars 3")
    assert change.unshown_of(change.copies[0]) is None
