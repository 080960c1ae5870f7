"""What happens to units when workers, brokers and controllers fail."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas.assignments import Change
from holdfast.services.controller.core.actions import Action, AppendAssigned, CreateTopics, Draft
from tests.unit.controller.cluster import CLUSTER, Cluster, Temper, job


def running(**settings: Any) -> Cluster:
    """A job on w1 and w2; both had their first incarnation at the start."""
    cluster = Cluster()
    cluster.start("w1", "1")
    cluster.start("w2", "1")
    cluster.pass_s(0.3)
    cluster.submit(job(fault_tolerance=settings))
    cluster.pass_s(0.5)
    assert sorted(set(cluster.placed().values())) == ["w1/1", "w2/1"]
    return cluster


PLACED_AGAIN = "the primary is gone: placed again from the checkpoint log"


def since(cluster: Cluster, epoch: int = 1) -> list[Change]:
    return [change for change in cluster.changes() if change.epoch > epoch]


def test_a_worker_that_returns_gets_its_units_back_at_once() -> None:
    cluster = running()
    cluster.kill("w1", notice=True)
    cluster.pass_s(1)
    assert since(cluster) == []
    assert cluster.statuses()[-1].available == 2
    assert cluster.statuses()[-1].error == "no sign of life from w1"
    cluster.start("w1", "2")
    cluster.pass_s(1)
    assert {(c.copies[0].incarnation, c.reason) for c in since(cluster)} == {
        ("2", f"{PLACED_AGAIN} (worker w1 returned)")
    }
    assert len(since(cluster)) == 2
    assert (cluster.statuses()[-1].state, cluster.statuses()[-1].available) == ("running", 4)
    assert cluster.statuses()[-1].error == ""


def test_a_worker_that_returns_without_an_exit_notice_gets_its_units_back_too() -> None:
    cluster = running()
    cluster.kill("w1")
    cluster.start("w1", "2")
    cluster.pass_s(0.2)
    assert {c.copies[0].incarnation for c in since(cluster)} == {"2"}


def test_a_zombie_never_gets_the_units_of_its_successor() -> None:
    cluster = running()
    zombie = cluster.workers["w1"]
    cluster.start("w1", "2")
    cluster.pass_s(0.2)
    done = since(cluster)
    for _ in range(5):
        zombie.beat()
        cluster.pass_s(0.1)
    assert since(cluster) == done


def test_the_units_of_a_worker_that_stays_silent_move_after_the_fail_stop_time_out() -> None:
    cluster = running(fail_stop_timeout_s=5)
    cluster.kill("w1")
    cluster.pass_s(4.5)
    assert since(cluster) == []
    cluster.pass_s(1.5)
    assert {(c.copies[0].worker, c.reason) for c in since(cluster)} == {
        ("w2", f"{PLACED_AGAIN} (worker w1 silent for 5.0 s)")
    }
    assert cluster.statuses()[-1].available == 4


def test_the_time_out_is_thirty_seconds_unless_the_job_says_otherwise() -> None:
    cluster = running()
    cluster.kill("w1", notice=True)
    cluster.pass_s(29.5)
    assert since(cluster) == []
    cluster.pass_s(1)
    assert set(cluster.placed().values()) == {"w2/1"}


def test_a_worker_back_after_its_units_moved_gets_none_of_them() -> None:
    cluster = running(fail_stop_timeout_s=1)
    cluster.kill("w1")
    cluster.pass_s(1.4)
    cluster.start("w1", "2")
    cluster.pass_s(1)
    assert set(cluster.placed().values()) == {"w2/1"}


def test_with_no_worker_left_everything_waits_and_the_first_to_come_back_gets_its_own() -> None:
    cluster = running(fail_stop_timeout_s=5)
    cluster.kill("w1")
    cluster.kill("w2")
    cluster.pass_s(3)
    assert since(cluster) == []
    assert cluster.statuses()[-1].available == 0
    assert cluster.statuses()[-1].error.startswith("no sign of life from w1, w2; no worker is alive")
    cluster.start("w2", "2")
    cluster.pass_s(0.5)
    assert {c.copies[0].worker for c in since(cluster)} == {"w2"}
    assert len(since(cluster)) == 2
    cluster.pass_s(5)
    assert set(cluster.placed().values()) == {"w2/2"}


def test_a_worker_that_returns_with_other_versions_gets_none_of_its_units_back() -> None:
    """They have not shown equal bytes: another worker takes them at once."""
    cluster = running()
    cluster.kill("w1", notice=True)
    cluster.start("w1", "2", versions={"holdfast": "next"})
    cluster.pass_s(1)
    assert set(cluster.placed().values()) == {"w2/1"}
    assert {c.reason for c in since(cluster)} == {f"{PLACED_AGAIN} (worker w1 returned with other versions)"}
    assert cluster.statuses()[-1].available == 4


@pytest.mark.slow
def test_without_another_worker_its_units_wait_until_it_has_the_versions_again() -> None:
    cluster = running()
    cluster.kill("w2", notice=True)
    cluster.pass_s(40)
    cluster.kill("w1", notice=True)
    before = cluster.changes()
    cluster.start("w1", "2", versions={"holdfast": "next"})
    cluster.pass_s(40)
    assert cluster.changes() == before
    assert "w1 lives with holdfast next (not test)" in cluster.statuses()[-1].error
    cluster.workers.pop("w1")
    cluster.start("w1", "3")
    cluster.pass_s(1)
    assert set(cluster.placed().values()) == {"w1/3"}


def test_a_worker_that_lives_with_other_versions_is_not_said_to_be_silent() -> None:
    cluster = Cluster()
    cluster.start("w1", "1")
    cluster.submit(job(fault_tolerance={"default": {"scheme": "passive"}}))
    cluster.pass_s(0.5)
    cluster.kill("w1", notice=True)
    cluster.start("w1", "2", versions={"holdfast": "next"})
    cluster.pass_s(1)
    back, nobody = (
        "w1 lives with holdfast next (not test): they have not shown equal bytes yet",
        cluster.statuses()[-1].error,
    )
    assert nobody.startswith(f"no worker alive may lead s-0 ({back}): start one")
    assert "; or `holdfast accept job` lets them lead as they are" in nobody


def test_a_copy_with_other_versions_that_stops_does_not_fail_the_job() -> None:
    cluster = Cluster()
    cluster.start("w1", "1")
    cluster.submit(job(fault_tolerance={"default": {"scheme": "hybrid"}}))
    cluster.pass_s(0.5)
    cluster.start("w2", "1", versions={"holdfast": "next"})
    cluster.pass_s(2)
    assert {one.worker for change in cluster.changes() for one in change.unshown} == {"w2"}
    cluster.workers["w2"].state, cluster.workers["w2"].error = "failed", "no such function"
    cluster.pass_s(0.3)
    assert cluster.states()[-1] == "running"
    differ = {str(one) for change in cluster.changes() for one in change.differ}
    assert differ == {"w2, stopped: no such function: holdfast next"}
    cluster.pass_s(3)
    assert set(cluster.placed().values()) == {"w1/1"}, "they get no copy again"


def test_a_job_that_nobody_can_run_can_be_cancelled() -> None:
    """No worker at all; none left that had its copies; none that may lead."""
    never = Cluster()
    never.submit(job())
    never.pass_s(0.5)
    never.command("cancel")
    never.pass_s(1)
    assert never.states()[-1] == "ended"
    for versions in (None, {"holdfast": "next"}):
        lost = running(default={"scheme": "passive"})
        for name in ("w1", "w2"):
            lost.kill(name)
            if versions is not None:
                lost.start(name, "2", versions=versions)
        lost.command("cancel")
        lost.pass_s(40)
        assert lost.states()[-1] == "ended"
        assert lost.job_topics() == []


def test_an_outage_of_the_broker_moves_no_unit() -> None:
    cluster = running(fail_stop_timeout_s=5)
    cluster.now_ms += 600_000
    cluster.settle()
    cluster.workers["w2"].beat()
    cluster.settle()
    cluster.pass_s(1)
    assert since(cluster) == []


def test_for_a_recovery_replica_that_starts_again_a_worker_is_silent_from_then_on() -> None:
    cluster = running(fail_stop_timeout_s=5)
    cluster.kill("w1")
    cluster.pass_s(4)
    cluster.replicas.clear()
    cluster.recoveries.clear()
    cluster.start_replica("c1")
    cluster.start_recovery("r1")
    cluster.settle()
    assert cluster.statuses()[-1].state == "running"
    cluster.pass_s(4.5)
    assert since(cluster) == []
    cluster.pass_s(1)
    assert {c.copies[0].worker for c in since(cluster)} == {"w2"}


def test_the_units_of_a_silent_worker_move_though_no_controller_runs() -> None:
    cluster = running(fail_stop_timeout_s=1)
    cluster.replicas.clear()
    cluster.kill("w1")
    cluster.pass_s(1.5)
    assert set(cluster.placed().values()) == {"w2/1"}


def test_without_recovery_nothing_is_placed_and_the_first_replica_places_it() -> None:
    cluster = Cluster(recoveries=0)
    cluster.start("w1")
    cluster.submit(job())
    cluster.pass_s(1)
    assert cluster.changes() == []
    assert cluster.states()[-1] == "starting"
    cluster.start_recovery("r0")
    cluster.pass_s(1)
    assert cluster.states()[-1] == "running"


def test_a_failed_action_is_done_again_and_meanwhile_the_status_says_why() -> None:
    cluster = Cluster(0)
    failing: dict[type[Action], int] = {Draft: 2, CreateTopics: 2, AppendAssigned: 2}

    def fails(action: Action) -> bool:
        failing[type(action)] = failing.get(type(action), 0) - 1
        return failing[type(action)] >= 0

    cluster.start_replica("c0", Temper(fails=fails))
    cluster.start("w1")
    cluster.pass_s(0.1)
    cluster.submit(job())
    cluster.pass_s(10)
    assert cluster.states() == ["accepted", "starting", "running"]
    assert {status.error for status in cluster.statuses()} == {"", "the broker does not answer"}
    assert cluster.statuses()[-1].error == ""
    assert max(failing.values()) < 0


def test_a_job_found_submitted_at_the_start_is_starting_until_its_copies_run() -> None:
    cluster = Cluster(0)
    cluster.submit(job())
    cluster.start_replica("c0")
    cluster.start("w1").state = "restoring"
    cluster.pass_s(1)
    assert all(cluster.placed().values())
    assert cluster.states() == ["accepted", "starting"]


@pytest.mark.parametrize("plan", [b'{"type":"plan","job":"job"}', b'{"type":"plan"', b"\xff"])
def test_a_job_whose_plan_cannot_be_read_can_be_cancelled(plan: bytes) -> None:
    """As after a change of versions: neither controller nor recovery can read what their predecessors wrote."""
    cluster = Cluster(replicas=0, recoveries=0)
    cluster.submit(job())
    cluster.append(CLUSTER.plans, plan)
    cluster.start_replica("c0")
    cluster.start_recovery("r0")
    cluster.pass_s(0.5)
    cluster.command("cancel")
    cluster.pass_s(1)
    assert cluster.states()[-1] == "ended"
    assert cluster.job_topics() == []
