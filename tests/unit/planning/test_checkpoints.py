"""Which checkpoint settings go together: what cannot work is refused, what has no effect is warned of."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas.job_settings import CheckpointSettings
from holdfast.services.decisions.policies import READ
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from holdfast.services.worker.checkpoint.policies.catalogue import POLICIES
from tests.unit.planning.jobs import job, problems

KEEP = {"filter": "x > 1", "input": "s"}


def asking(checkpoint: dict[str, Any], **more: Any) -> dict[str, Any]:
    return job({"o": KEEP}, fault_tolerance={"checkpoint": checkpoint, **more})


def warnings(raw: dict[str, Any]) -> list[str]:
    return [one for one in check(interpret(raw), ()).warnings if "checkpoint" in one]


def test_workers_have_every_policy_that_a_job_file_may_name() -> None:
    named = set(CheckpointSettings.model_json_schema()["properties"]["policy"]["enum"])
    assert named == POLICIES.keys() == READ.keys()


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_is_taken_without_a_warning(policy: str) -> None:
    assert problems(asking({"policy": policy})) == []
    assert warnings(asking({"policy": policy})) == []


@pytest.mark.parametrize("policy", ["idle-minmax", "idle-roundrobin"])
def test_a_maximum_interval_below_the_minimum_one_is_refused(policy: str) -> None:
    (found,) = problems(asking({"policy": policy, "min_interval_ms": 400, "max_interval_ms": 300}))
    assert found.path == "fault_tolerance.checkpoint.max_interval_ms"
    assert found.message == "300 is less than min_interval_ms, 400: both cannot be kept"
    assert problems(asking({"policy": policy, "min_interval_ms": 300, "max_interval_ms": 300})) == []


@pytest.mark.parametrize("scheme", ["active-standby", "active-replication", "adaptive"])
def test_min_max_is_refused_where_a_standby_repeats_nothing(scheme: str) -> None:
    asked = {"policy": "idle-minmax"}
    (everywhere,) = problems(asking(asked, default={"scheme": scheme}))
    (somewhere,) = problems(asking(asked, units={"o": {"scheme": scheme}}))
    assert everywhere.path == somewhere.path == "fault_tolerance.checkpoint.policy"
    repeats = "may repeat nothing" if scheme == "adaptive" else "repeats nothing"
    assert f"under {scheme} (fault_tolerance.default) it {repeats}" in everywhere.message
    assert f"under {scheme} (fault_tolerance.units.o) it {repeats}" in somewhere.message
    assert problems(asking({"policy": "idle-roundrobin"}, default={"scheme": scheme})) == []
    assert problems(asking(asked, default={"scheme": "hybrid"})) == []


def test_aligned_is_refused_where_what_is_kept_is_bounded() -> None:
    (found,) = problems(job({"o": KEEP}, retain_bytes=1 << 20, fault_tolerance={"checkpoint": {"policy": "aligned"}}))
    assert found.path == "fault_tolerance.checkpoint.policy"
    assert "none might ever be complete" in found.message


@pytest.mark.parametrize("buffering", ["upstream", "source", "adaptive"])
def test_aligned_goes_with_an_operator_on_spark_unless_units_go_back_with_what_sends_to_them(buffering: str) -> None:
    raw = job({"o": {"spark": {"sql": "SELECT * FROM input"}, "input": "s"}})
    raw["fault_tolerance"] = {"checkpoint": {"policy": "aligned"}, "buffering": buffering}
    found = [one for one in problems(raw) if one.path.startswith("fault_tolerance")]
    refused = f"{buffering} does not work with operators.o: its unit goes back to no global checkpoint"
    assert [(one.path, one.message) for one in found] == (
        [] if buffering == "upstream" else [("fault_tolerance.buffering", refused)]
    )


@pytest.mark.parametrize(
    ("policy", "setting", "value", "read"),
    [
        ("sweep", "min_interval_ms", 10, "interval_ms"),
        ("individual", "every_batches", 3, "interval_ms"),
        ("aligned", "interval_ms", 100, "every_batches"),
        ("idle-minmax", "interval_ms", 100, "min_interval_ms, max_interval_ms and merge_ms"),
        ("whole-worker", "max_interval_ms", 5_000, "interval_ms"),
    ],
)
def test_a_setting_that_the_policy_does_not_read_is_warned_of(policy: str, setting: str, value: int, read: str) -> None:
    assert warnings(asking({"policy": policy, setting: value})) == [
        f"fault_tolerance.checkpoint.{setting}: has no effect under {policy}, which reads {read}"
    ]
