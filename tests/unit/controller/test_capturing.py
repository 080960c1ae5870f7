"""Commands for another checkpoint policy: each is answered once, in the order in which they were asked."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas import assignments
from holdfast.schemas.assignments import CheckpointPolicy
from holdfast.services.controller.core.actions import AppendAssigned
from tests.unit.controller.cluster import CLUSTER, Cluster, Temper, job

EIGHT: dict[str, Any] = {"fault_tolerance": {"checkpoint": {"interval_ms": 800}}}


def running(replicas: int = 1, **more: Any) -> Cluster:
    cluster = Cluster(replicas)
    cluster.start("w1")
    cluster.start("w2")
    cluster.pass_s(0.3)
    cluster.submit(job(**more))
    cluster.pass_s(0.6)
    assert cluster.statuses()[-1].state == "running"
    return cluster


def answers(cluster: Cluster) -> list[CheckpointPolicy]:
    """As they were appended, valid or not."""
    return [one for record in cluster.read(CLUSTER.assignments, assignments.decode) for one in record.policies]


def said(cluster: Cluster) -> list[tuple[str, str]]:
    return [(e.kind, e.detail) for e in cluster.events() if e.kind in ("checkpoint-policy", "command-refused")]


def asked(cluster: Cluster, policy: str, **settings: int) -> None:
    cluster.submit({"command": "checkpoint", "job": "job", "policy": policy, **settings})
    cluster.settle()


def test_a_policy_is_changed_and_what_the_command_leaves_out_stays() -> None:
    cluster = running(**EIGHT)
    asked(cluster, "aligned", every_batches=7)
    asked(cluster, "individual")
    first, second = answers(cluster)
    assert (first.policy, first.every_batches, first.interval_ms) == ("aligned", 7, 800)
    assert (second.policy, second.every_batches, second.interval_ms) == ("individual", 7, 800)
    assert second.asked > first.asked
    assert said(cluster) == [("checkpoint-policy", "aligned"), ("checkpoint-policy", "individual")]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"policy": "alinged"}, "'alinged' is not one of"),
        ({"policy": "aligned", "every_batches": 0}, "fault_tolerance.checkpoint.every_batches: "),
        (
            {"policy": "idle-minmax", "max_interval_ms": 60},
            "fault_tolerance.checkpoint.max_interval_ms: 60 is less than",
        ),
    ],
)
def test_settings_that_a_job_file_may_not_ask_for_are_refused_and_the_policy_in_force_stays(
    settings: dict[str, Any], problem: str
) -> None:
    cluster = running(**EIGHT)
    asked(cluster, **settings)
    (answer,) = answers(cluster)
    assert problem in answer.refusal
    assert (answer.policy, answer.interval_ms, answer.every_batches) == ("sweep", 800, 10)
    assert [(kind, detail.startswith("checkpoint: ")) for kind, detail in said(cluster)] == [("command-refused", True)]


def test_a_policy_that_does_not_work_with_the_scheme_of_a_unit_is_refused() -> None:
    cluster = running(fault_tolerance={"units": {"n": {"scheme": "active-standby"}}})
    asked(cluster, "idle-minmax")
    asked(cluster, "idle-roundrobin")
    refused, taken = answers(cluster)
    assert "under active-standby (unit n-0) it repeats nothing" in refused.refusal
    assert (refused.policy, taken.policy, taken.refusal) == ("sweep", "idle-roundrobin", "")


def test_a_scheme_that_was_asked_for_before_counts_and_one_asked_for_later_does_not() -> None:
    cluster = running()
    unit = cluster.plan().units[0].name
    cluster.command("scheme", unit=unit, scheme="active-standby")
    cluster.command("checkpoint", policy="idle-minmax")
    cluster.settle()
    cluster.command("scheme", unit=unit, scheme="passive")
    cluster.settle()
    cluster.command("checkpoint", policy="idle-minmax")
    cluster.command("scheme", unit=unit, scheme="active-standby")
    cluster.settle()
    first, second = answers(cluster)
    assert f"under active-standby (unit {unit})" in first.refusal
    assert (second.policy, second.refusal) == ("idle-minmax", "")
    changes = [one for one in cluster.changes() if one.unit.endswith(f"/{unit}")]
    assert [one.scheme for one in changes] == ["none", "active-standby", "passive", "passive"]
    assert "under active-standby it repeats nothing" in changes[-1].reason


def test_a_scheme_that_does_not_work_with_the_policy_is_refused_and_the_policy_may_then_change() -> None:
    cluster = running()
    unit = cluster.plan().units[0].name
    asked(cluster, "idle-minmax")
    cluster.command("scheme", unit=unit, scheme="active-replication")
    cluster.settle()
    last = [change for change in cluster.changes() if change.unit.endswith(f"/{unit}")][-1]
    assert last.scheme == "none"
    assert "under active-replication it repeats nothing" in last.reason
    asked(cluster, "sweep")
    asked(cluster, "idle-minmax")
    assert [one.refusal for one in answers(cluster)] == ["", "", ""]


def test_two_commands_at_once_are_answered_in_their_order_the_second_by_what_the_first_left() -> None:
    cluster = running()
    for settings in ({"policy": "aligned", "every_batches": 3}, {"policy": "idle-minmax", "min_interval_ms": 10}):
        cluster.submit({"command": "checkpoint", "job": "job", **settings})
    cluster.settle()
    assert [(one.policy, one.every_batches, one.min_interval_ms) for one in answers(cluster)] == [
        ("aligned", 3, 100),
        ("idle-minmax", 3, 10),
    ]


def test_two_controllers_report_each_answer_once() -> None:
    cluster = running(replicas=2)
    asked(cluster, "aligned")
    asked(cluster, "nothing")
    assert len(said(cluster)) == 2
    assert len({one.asked for one in answers(cluster)}) == 2


def test_a_controller_that_starts_again_answers_nothing_twice() -> None:
    cluster = running()
    asked(cluster, "aligned")
    asked(cluster, "nothing")
    cluster.start_replica("c0")
    cluster.pass_s(0.3)
    assert len(answers(cluster)) == 2


def test_an_answer_that_could_not_be_appended_is_given_later() -> None:
    cluster = running()
    temper = cluster.replicas["c0"].conductor.temper = Temper(
        fails=lambda action: isinstance(action, AppendAssigned) and bool(action.policies)
    )
    asked(cluster, "aligned")
    assert answers(cluster) == []
    temper.fails = lambda _: False
    cluster.pass_s(1.5)
    assert [one.policy for one in answers(cluster)] == ["aligned"]


def test_a_command_to_a_job_that_ended_is_refused() -> None:
    cluster = running()
    cluster.command("cancel")
    cluster.pass_s(1.0)
    asked(cluster, "aligned")
    assert answers(cluster) == []
    assert [kind for kind, _ in said(cluster)] == ["command-refused"]
