"""Histories of jobs under one controller, as a user sees them."""

from __future__ import annotations

import pytest

from holdfast.schemas.commands import COMMANDS
from holdfast.schemas.cuts import Beginning, Control
from holdfast.schemas.events import Event
from holdfast.schemas.plans import Ended, Plan, Rejection
from holdfast.schemas.topics import TopicSpec
from holdfast.services.kernel.errors import Fenced
from holdfast.services.log.protocol import Rows, Transactor
from tests.unit.controller.cluster import CLUSTER, Cluster, job

UP = ["accepted", "starting", "running"]


def running(replicas: int = 1) -> Cluster:
    """Two workers, and a job that runs on them."""
    cluster = Cluster(replicas)
    cluster.start("w1")
    cluster.start("w2")
    cluster.pass_s(0.3)
    cluster.submit(job())
    cluster.pass_s(0.6)
    assert cluster.statuses()[-1].state == "running"
    return cluster


def refusals(cluster: Cluster) -> list[str]:
    return [event.detail for event in cluster.events() if event.kind == "command-refused"]


# -- admission --------------------------------------------------------------------------------------------------------


def test_a_job_is_planned_its_topics_created_and_its_units_placed_and_it_runs_once_every_copy_does() -> None:
    cluster = running()
    g = cluster.plan().generation
    assert cluster.replicas["c0"].core.story == [
        f"job@{g}: submitted --turn_came--> drafting: describe the user's topics and make a plan",
        f"job@{g}: drafting --drafted--> deciding: append the plan or the rejection",
        f"job@{g}: deciding --plan_read--> admitted",
        f"job@{g}: admitted --cleared--> creating: create the generation's topics",
        f"job@{g}: creating --created--> placing",
        f"job@{g}: placing --placed--> running",
    ]
    assert cluster.states() == UP
    assert (cluster.statuses()[-1].available, cluster.statuses()[-1].units) == (4, 4)
    assert sorted(place.split("/")[0] for place in cluster.placed().values()) == ["w1", "w1", "w2", "w2"]
    assert f"t.job.{g}.checkpoints" in cluster.job_topics()
    assert [(e.kind, e.unit) for e in cluster.events()][:2] == [("job-admitted", ""), ("placed", "s-0")]


def test_a_bad_job_is_rejected_with_every_problem_and_nothing_is_started() -> None:
    cluster = Cluster()
    bad = job(queries={"q": {"input": "m", "sink": {"topic": "none"}}}, batch_interval_ms=0)
    cluster.submit(bad)
    cluster.submit(job("wrong", sources={"s": {"topic": "gone", "fields": {"x": "int"}}}))
    cluster.settle()
    first, second = cluster.decisions()
    assert isinstance(first, Rejection)
    assert [p.path for p in first.problems] == ["queries.q.input", "batch_interval_ms"]
    assert isinstance(second, Rejection)
    assert [p.path for p in second.problems] == ["sources.s.topic", "queries.q.sink.topic"]
    assert cluster.statuses("wrong")[-1].problems == second.problems
    assert cluster.states("wrong") == ["accepted", "rejected"]
    assert cluster.log.topics().keys() == {s.name for s in CLUSTER.specs()} | {"in", "out-job", "out-other"}


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b"null", b'"job"', b"\xff"])
def test_a_record_that_is_no_job_at_all_is_rejected_and_the_next_one_runs(record: bytes) -> None:
    cluster = Cluster()
    cluster.submit(record)
    cluster.submit(job())
    cluster.settle()
    rejection, plan = cluster.decisions()
    assert isinstance(rejection, Rejection)
    assert [p.path for p in rejection.problems] == ["job"]
    assert isinstance(plan, Plan)


def test_a_name_in_use_is_refused_beside_the_other_problems_and_free_again_when_the_job_has_ended() -> None:
    cluster = running()
    cluster.submit(job(batch_interval_ms=0))
    cluster.settle()
    rejection = cluster.decisions()[-1]
    assert isinstance(rejection, Rejection)
    assert [p.path for p in rejection.problems] == ["name", "batch_interval_ms"]
    assert "running already" in rejection.problems[0].message
    cluster.command("cancel")
    cluster.pass_s(0.5)
    cluster.submit(job())
    cluster.pass_s(0.3)
    assert [type(d) for d in cluster.decisions()] == [Plan, Rejection, Ended, Plan]


def test_two_records_of_one_name_at_once_are_decided_in_their_order() -> None:
    cluster = Cluster()
    cluster.submit(job())
    cluster.submit(job())
    cluster.settle()
    assert [type(d) for d in cluster.decisions()] == [Plan, Rejection]


def test_a_unit_is_placed_by_its_table_at_once_with_the_scheme_that_the_job_asks_for() -> None:
    cluster = Cluster()
    cluster.start("w1")
    cluster.pass_s(0.3)
    cluster.submit(job(fault_tolerance={"default": {"scheme": "hybrid"}}))
    cluster.pass_s(0.5)
    assert {(change.epoch, change.scheme, change.reason) for change in cluster.changes()} == {
        (1, "hybrid", "its job is to run: placed")
    }


# -- waiting, running, failing ----------------------------------------------------------------------------------------


def test_a_job_waits_for_a_first_worker_and_says_so() -> None:
    cluster = Cluster()
    cluster.submit(job())
    cluster.settle()
    assert cluster.placed() == {}
    assert cluster.statuses()[-1].state == "starting"
    assert cluster.statuses()[-1].error == "no worker is alive: start one with `holdfast up --workers N`"
    cluster.start("w1")
    cluster.pass_s(0.6)
    assert cluster.statuses()[-1].state == "running"
    assert cluster.statuses()[-1].error == ""


def test_a_new_unit_starts_with_whatever_versions_its_worker_has() -> None:
    cluster = Cluster()
    cluster.start("w1", "1", versions={"holdfast": "older"})
    cluster.pass_s(0.1)
    cluster.submit(job())
    cluster.pass_s(0.6)
    assert set(cluster.placed().values()) == {"w1/1"}
    assert {change.shown for change in cluster.changes()} == {("holdfast older",)}


def test_a_failed_copy_fails_the_job_with_its_cause() -> None:
    cluster = running()
    cluster.workers["w2"].state, cluster.workers["w2"].error = "failed", "division of a string"
    cluster.pass_s(0.3)
    last = cluster.statuses()[-1]
    assert (last.state, last.available) == ("failed", 2)
    assert last.error.endswith(" on w2: division of a string")
    since_ms = last.since_ms
    assert cluster.now_ms - 300 <= since_ms <= cluster.now_ms
    cluster.workers["w2"].error = "division of two strings"
    cluster.pass_s(1)
    assert cluster.statuses()[-1].error.endswith("two strings")
    assert cluster.statuses()[-1].since_ms == since_ms, "it has been failed all the time"
    cluster.replicas.clear()
    cluster.start_replica("c9")
    cluster.pass_s(0.1)
    assert (cluster.statuses()[-1].state, cluster.statuses()[-1].since_ms) == ("failed", since_ms), "it was published"


def test_counts_alone_are_published_at_most_every_half_second() -> None:
    cluster = running()
    before = len(cluster.statuses())
    for state in ("restoring", "running") * 10:
        cluster.workers["w1"].state = state
        cluster.pass_s(0.1)
    assert len(cluster.statuses()) - before <= 4


# -- commands ---------------------------------------------------------------------------------------------------------


def test_cancel_unplaces_every_unit_waits_until_no_copy_is_left_fences_deletes_and_frees_the_name() -> None:
    cluster = running()
    cluster.workers["w2"].stubborn = True
    cluster.command("cancel")
    cluster.pass_s(1)
    assert set(cluster.placed().values()) == {""}
    assert cluster.states()[-1] == "cancelling"
    assert cluster.job_topics(), "a copy still uses them"
    cluster.workers["w2"].stubborn = False
    cluster.pass_s(0.2)
    g = cluster.plan().generation
    assert cluster.replicas["c0"].core.story[-5:] == [
        f"job@{g}: running --stop_asked--> stopping",
        f"job@{g}: stopping --stopped--> fencing: fence every transactional id",
        f"job@{g}: fencing --fenced--> deleting: delete the generation's topics",
        f"job@{g}: deleting --deleted--> ending: append the end",
        f"job@{g}: ending --end_read--> ended",
    ]
    assert cluster.job_topics() == []
    unplaced = {(change.reason, change.asked) for change in cluster.changes() if not change.copies}
    assert unplaced == {("its job is to stop: unplaced (cancelled)", 1)}
    assert [(goal.kind, goal.reason, goal.asked) for goal in cluster.goals()] == [
        ("run", "", -1),
        ("stop", "cancelled", 1),
    ]
    end = cluster.decisions()[-1]
    assert isinstance(end, Ended)
    assert end.reason == "cancelled"
    assert cluster.states() == [*UP, "cancelling", "ended"]


def test_cancel_fences_the_ids_of_the_units_that_deliver() -> None:
    cluster = running()
    names = cluster.names()
    held = {unit.name: cluster.log.transactor(names.transactional_id(unit.name)) for unit in cluster.plan().units}
    for transactor in held.values():
        transactor.start()
    cluster.command("cancel")
    cluster.pass_s(0.3)
    assert [unit for unit, transactor in held.items() if fenced(transactor)] == [
        unit.name for unit in cluster.plan().units if unit.delivers
    ]


def fenced(transactor: Transactor) -> bool:
    try:
        transactor.commit([Rows("out-job", [b"{}"])])
    except Fenced:
        return True
    return False


def test_a_cancelled_job_that_never_found_a_worker_ends_too() -> None:
    cluster = Cluster()
    cluster.submit(job())
    cluster.settle()
    cluster.command("cancel")
    cluster.pass_s(0.2)
    assert cluster.states()[-1] == "ended"
    assert cluster.job_topics() == []


def test_drain_records_the_end_offsets_waits_for_every_unit_and_ends() -> None:
    cluster = running()
    for partition, count in enumerate((3, 5)):
        cluster.fill("in", partition, count)
    cluster.command("drain")
    cluster.pass_s(0.3)
    assert cluster.controls() == [Control("drain", 1, {"s-0": {0: 3}, "s-1": {1: 5}})]
    assert cluster.states()[-1] == "draining"
    cluster.run_out(but="n-1")
    cluster.pass_s(0.3)
    assert cluster.states()[-1] == "draining"
    cluster.run_out()
    cluster.pass_s(0.3)
    end = cluster.decisions()[-1]
    assert isinstance(end, Ended)
    assert end.reason == "drained"
    assert cluster.states() == [*UP, "draining", "ended"]
    assert cluster.job_topics() == []


def test_a_draining_job_can_still_be_cancelled() -> None:
    cluster = running()
    cluster.command("drain")
    cluster.command("pause")
    cluster.pass_s(0.2)
    cluster.command("cancel")
    cluster.pass_s(0.3)
    end = cluster.decisions()[-1]
    assert isinstance(end, Ended)
    assert end.reason == "cancelled"
    assert refusals(cluster) == [f"pause: {cluster.replicas['c0'].core.jobs[end.generation].label} is draining"]


def test_a_job_whose_topic_was_created_again_continues_only_from_where_a_person_says() -> None:
    cluster = running()
    (source,) = cluster.plan().sources
    cluster.log.delete([source.topic])
    cluster.log.create([TopicSpec(source.topic, 2)])
    for worker in cluster.workers.values():
        worker.stopped = "the topic is another one: --from earliest or latest"
    cluster.pass_s(0.5)
    assert cluster.states()[-1] == "stopped"
    cluster.command("resume")
    cluster.pass_s(0.2)
    assert refusals(cluster) == ["resume: the topic is another one: --from earliest or latest"]
    assert cluster.controls() == []
    cluster.command("resume", start="latest")
    cluster.pass_s(0.2)
    (control,) = cluster.controls()
    assert isinstance(control, Control)
    id = cluster.log.describe([source.topic])[source.topic].id
    tasks = len(source.owners)
    first = {f"{source.operator}-{i}": {p: 0 for p in range(i, 2, tasks)} for i in range(tasks)}
    assert control.beginnings == {source.operator: Beginning(id, first)}


def test_pause_and_resume_are_control_records_in_their_order() -> None:
    cluster = running()
    cluster.command("pause")
    cluster.pass_s(0.2)
    assert cluster.states()[-1] == "paused"
    cluster.command("resume")
    cluster.pass_s(0.2)
    assert cluster.states()[-1] == "running"
    assert cluster.controls() == [Control("pause", 1), Control("resume", 2)]


def test_a_command_that_comes_before_the_decision_waits_for_it() -> None:
    cluster = Cluster()
    cluster.submit(job())
    cluster.command("cancel")
    cluster.settle()
    assert [type(d) for d in cluster.decisions()] == [Plan, Ended]


SCHEMES_ARE = (
    "scheme: there is no 'hybird': one of active-replication, active-standby, adaptive, deployed, hybrid, "
    "none, passive, passive-cold, passive-hot"
)


def test_commands_that_cannot_be_followed_are_answered() -> None:
    cluster = running()
    generation = cluster.plan().generation
    cluster.command("cancel", "nobody")
    cluster.command("scheme", unit="n-7", scheme="hybrid")
    cluster.command("scheme", unit="n-0", scheme="hybird")
    cluster.command("scheme", unit="n-0", scheme="hybrid")
    cluster.submit({"command": "stop", "job": "job"})
    cluster.submit({"command": "cancel"})
    cluster.settle()
    assert [event for event in cluster.events() if event.kind == "command-refused"] == [
        Event(cluster.now_ms, "command-refused", job=job, unit=unit, detail=detail)
        for job, unit, detail in (
            ("nobody", "", "cancel: no such job; running: job"),
            ("job", "n-7", f"scheme: job@{generation} has no unit 'n-7': one of n-0, n-1, s-0, s-1"),
            ("job", "n-0", SCHEMES_ARE),
            ("job", "", f"unknown command 'stop': one of {', '.join(COMMANDS)}"),
            ("", "", "Object missing required field `job`"),
        )
    ]


def test_a_command_never_reaches_a_later_job_of_the_name() -> None:
    cluster = running()
    cluster.command("cancel")
    cluster.pass_s(0.3)
    cluster.command("cancel")
    cluster.submit(job())
    cluster.pass_s(0.5)
    cluster.start_replica("c1")
    cluster.pass_s(1)
    assert [type(d) for d in cluster.decisions()] == [Plan, Ended, Plan]
    assert cluster.states()[-1] == "running"
    assert [detail.split(" has ")[1] for detail in refusals(cluster)] == ["ended"]
