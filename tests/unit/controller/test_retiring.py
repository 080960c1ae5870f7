"""Units of jobs that have ended leave `assignments`, and those of no other job."""

from __future__ import annotations

import pytest

from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, encode
from holdfast.schemas.retired import Retired
from holdfast.services.controller.core import goals
from holdfast.services.controller.core.actions import AppendAssigned, AppendDecision
from holdfast.services.decisions.standings import Standings
from tests.unit.controller.cluster import CLUSTER, Cluster, Temper, job


@pytest.fixture(autouse=True)
def _one_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goals, "RETIRE_AT", 1)


def standings(cluster: Cluster) -> Standings:
    """As recovery has them, and the controller the same."""
    found = next(iter(cluster.recoveries.values())).replica.core.known.standings
    assert next(iter(cluster.replicas.values())).core.goals.standings.snapshot() == found.snapshot()
    return found


def ended(cluster: Cluster, name: str = "job") -> str:
    """A job that ran and was cancelled; its generation."""
    cluster.submit(job(name))
    cluster.pass_s(1)
    generation = cluster.plan(name).generation
    cluster.command("cancel", name)
    cluster.pass_s(1)
    return generation


def test_an_ended_job_is_forgotten_and_a_running_one_is_not() -> None:
    cluster = Cluster()
    cluster.start("w")
    cluster.submit(job("other"))
    cluster.pass_s(1)
    gone = ended(cluster)
    cluster.pass_s(2)
    found = standings(cluster)
    assert found.generations() == {cluster.plan("other").generation}
    assert found.retired(gone)
    assert not found.retired(cluster.plan("other").generation)
    assert cluster.states("other")[-1] == "running"


def test_a_late_word_of_a_replica_that_hung_does_not_count() -> None:
    cluster = Cluster()
    worker = cluster.start("w")
    gone = ended(cluster)
    cluster.pass_s(2)
    stale = Change(f"job@{gone}/s-0", 1, (Copy("w", worker.incarnation, PRIMARY),))
    cluster.append(CLUSTER.assignments, encode(Assignment("hung", 0, (stale,))))
    cluster.pass_s(1)
    assert standings(cluster).generations() == set()


def test_a_job_that_is_not_decided_yet_can_still_be_placed() -> None:
    """Its decision takes long, and another job ends meanwhile."""
    cluster = Cluster(replicas=0)
    slow = Temper(holds=lambda action: isinstance(action, AppendDecision) and action.decision.job == "job")
    core = cluster.start_replica("c0", slow).core
    cluster.start("w")
    ended(cluster, "other")
    cluster.submit(job("other"))
    cluster.submit(job())
    cluster.command("cancel", "other")
    cluster.pass_s(3)
    (undecided,) = (one.generation for one in core.jobs.values() if one.undecided)
    assert standings(cluster).retired(cluster.plan("other").generation)
    assert not standings(cluster).retired(undecided)
    del cluster.replicas["c0"]
    cluster.start_replica("c1")
    cluster.pass_s(2)
    assert cluster.states()[-1] == "running"


def test_a_retirement_is_stated_again_when_it_was_not_appended() -> None:
    cluster, failures = Cluster(replicas=0), iter([True, True])
    cluster.start_replica(
        "c0",
        Temper(
            fails=lambda action: isinstance(action, AppendAssigned) and bool(action.retired) and next(failures, False)
        ),
    )
    cluster.start("w")
    gone = ended(cluster)
    cluster.pass_s(5)
    assert next(failures, None) is None
    assert standings(cluster).retired(gone)


def test_a_record_that_retires_a_job_which_runs_changes_nothing() -> None:
    cluster = Cluster()
    cluster.start("w")
    cluster.submit(job())
    cluster.pass_s(1)
    cluster.append(CLUSTER.assignments, encode(Assignment("mistake", 0, (), retired=Retired(10**6))))
    cluster.pass_s(1)
    assert not standings(cluster).retired(cluster.plan().generation)
    assert cluster.states()[-1] == "running"
    cluster.command("cancel")
    cluster.pass_s(2)
    assert cluster.states()[-1] == "ended"
