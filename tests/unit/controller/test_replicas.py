"""Several controllers, slow ones and crashing ones: the log decides, and everything is finished."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.schemas.plans import Counts, Ended, Plan
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import Partition
from holdfast.services.controller.core import actions
from holdfast.services.controller.core.actions import Action
from holdfast.services.controller.core.life import TRANSITIONS, Phase, Step
from tests.unit.controller.cluster import CLUSTER, Cluster, Temper, job

pytestmark = pytest.mark.slow


def one_life(cluster: Cluster, end: str = "drain") -> None:
    """A job from its submission to its end, with a worker that dies and one that stays."""
    cluster.start("w1", "1")
    cluster.start("w2", "1")
    cluster.pass_s(0.1)
    cluster.submit(job(fault_tolerance={"fail_stop_timeout_s": 2}))
    cluster.pass_s(0.5)
    cluster.command("pause")
    cluster.command("resume")
    cluster.kill("w1")
    cluster.pass_s(3)
    assert set(cluster.placed().values()) == {"w2/1"}
    for unit in cluster.plan().units:
        cluster.tell(Progress(unit.name, 5, 5, records=6, late=1, late_dropped={"s": 1}))
    cluster.command(end)
    cluster.pass_s(0.5)
    if end == "drain":
        cluster.run_out()
    cluster.pass_s(1)


def check_over(cluster: Cluster, reason: str) -> None:
    plan, end = cluster.decisions()
    assert isinstance(plan, Plan)
    assert isinstance(end, Ended)
    assert end.reason == reason
    assert cluster.job_topics() == []
    assert cluster.states()[-1] == "ended"
    check_counted(plan, end, cluster.statuses()[-1])
    last = {change.unit: change for change in cluster.changes()}
    assert all(not change.copies for change in last.values())
    taken_down: Counter[str] = Counter(change.unit for change in cluster.changes() if not change.copies)
    assert set(taken_down.values()) == {1}, "a unit was placed again after it had been unplaced"


def check_counted(plan: Plan, *last: Counts) -> None:
    """What every unit told last, once, though the topic is gone that it was told in."""
    records, dropped = (10, 2) if isinstance(last[0], Ended) and last[0].reason == "drained" else (6, 1)
    for one in last:
        assert (one.records, one.late_dropped) == (records * len(plan.units), {"s": dropped * len(plan.units)})


def of(kind: type) -> Temper:
    """It is never done with actions of this kind."""
    return Temper(holds=lambda action: isinstance(action, kind))


def test_a_controller_that_follows_another_knows_since_when_jobs_and_queries_are_as_they_are() -> None:
    cluster = Cluster()
    cluster.start("w1", "1")
    cluster.submit(job())
    cluster.pass_s(1)
    before = cluster.statuses()[-1]
    assert (before.state, before.since_ms > 0, len(before.queries)) == ("running", True, 1)
    cluster.pass_s(20)
    for name in list(cluster.replicas):
        del cluster.replicas[name]
    cluster.start_replica("c9")
    cluster.pass_s(5)
    after = cluster.statuses()[-1]
    assert after.time_ms > before.time_ms
    assert (after.state, after.since_ms) == (before.state, before.since_ms)
    assert [(one.query, one.available, one.since_ms) for one in after.queries] == [
        (one.query, one.available, one.since_ms) for one in before.queries
    ]


ENDS = [("drain", "drained"), ("cancel", "cancelled")]


@pytest.mark.parametrize(("end", "reason"), ENDS)
def test_replicas_that_all_propose_agree_on_one_plan_one_goal_and_one_end(end: str, reason: str) -> None:
    cluster = Cluster(0)
    for name in ("c0", "c1", "c2"):
        cluster.start_replica(name, Temper(late=lambda _: True))
    one_life(cluster, end)
    check_over(cluster, reason)
    assert len(cluster.values(CLUSTER.plans)) == 6, "all three proposed both decisions"
    assert [goal.kind for goal in cluster.goals()] == ["run"] * 3 + ["stop"] * 3, "and all stated both goals"
    for replica in cluster.replicas.values():
        assert [job.life.phase for job in replica.core.jobs.values()] == [Phase.ENDED]


def test_replicas_that_see_the_submission_at_different_times_reject_the_same_jobs() -> None:
    cluster = Cluster(1)
    cluster.submit(job())
    cluster.submit(job())
    cluster.start_replica("c1", of(actions.AppendDecision))
    cluster.settle()
    cluster.submit(job())
    cluster.start_replica("c2")
    cluster.settle()
    assert [type(d).__name__ for d in cluster.decisions()] == ["Plan", "Rejection", "Rejection"]
    cores = [replica.core for replica in cluster.replicas.values()]
    assert len({tuple(job.life.phase for job in core.jobs.values()) for core in cores}) == 1


SLOW = [
    actions.Draft,
    actions.AppendDecision,
    actions.CreateTopics,
    actions.AppendAssigned,
    actions.AppendControl,
    actions.FenceIds,
    actions.DeleteTopics,
]


@pytest.mark.parametrize("kind", SLOW, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("end", "reason"), ENDS)
def test_a_replica_that_hangs_anywhere_stops_nobody(kind: type, end: str, reason: str) -> None:
    cluster = Cluster(0)
    cluster.start_replica("slow", of(kind))
    cluster.start_replica("c1")
    one_life(cluster, end)
    check_over(cluster, reason)
    slow = cluster.replicas["slow"].core
    assert [job.life.phase for job in slow.jobs.values()] == [Phase.ENDED]


def _actions_of_one_life(end: str) -> int:
    count = 0

    def counted(_: Action) -> bool:
        nonlocal count
        count += 1
        return False

    cluster = Cluster(0)
    cluster.start_replica("c0", Temper(crash_before=counted))
    one_life(cluster, end)
    return count


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("end", "reason"), ENDS)
def test_a_controller_that_crashes_at_any_action_is_followed_by_one_that_finishes_the_work(
    when: str, end: str, reason: str
) -> None:
    count = _actions_of_one_life(end)
    assert count > 15
    for number in range(count):
        cluster = Cluster(0)
        left = iter(range(number, -1, -1))

        def crashes(_: Action, left: object = left) -> bool:
            return next(left, -1) == 0  # type: ignore[call-overload, no-any-return]

        temper = Temper(crash_before=crashes) if when == "before" else Temper(crash_after=crashes)
        cluster.start_replica("c0", temper)
        one_life(cluster, end)
        assert list(cluster.replicas) == ["c0+"], f"no crash at action {number}"
        check_over(cluster, reason)


def test_a_job_whose_units_somebody_began_to_unplace_is_never_placed_again() -> None:
    """Its topics may be gone: placed again, it would read and deliver everything from the start."""
    cluster = Cluster(0)
    stops = Temper(crash_before=lambda action: isinstance(action, actions.AppendDecision) and ends(action))
    cluster.start_replica("c0", stops)
    cluster.start("w1")
    cluster.pass_s(0.1)
    cluster.submit(job())
    cluster.pass_s(0.3)
    cluster.command("drain")
    cluster.pass_s(0.3)
    cluster.run_out()
    cluster.pass_s(0.5)
    check_over(cluster, "drained")
    (story,) = [replica.core.story for replica in cluster.replicas.values()]
    assert [line.split("--")[1] for line in story] == [
        "plan_read", "stop_asked", "stopped", "fenced", "deleted", "end_read",
    ]  # fmt: skip


def ends(action: actions.AppendDecision) -> bool:
    return isinstance(action.decision, Ended)


def test_topics_created_after_another_replica_ended_the_job_are_deleted() -> None:
    cluster = Cluster(1)
    slow = cluster.start_replica("slow", of(actions.CreateTopics))
    cluster.submit(job())
    cluster.command("cancel", "nobody")
    cluster.settle()
    names = cluster.names()
    cluster.command("cancel")
    cluster.settle()
    assert isinstance(cluster.decisions()[-1], Ended)
    assert [job.life.phase for job in slow.core.jobs.values()] == [Phase.ENDED]
    assert slow.core.story[-1].endswith("creating --end_read--> ended: delete the generation's topics")
    assert Partition(names.cuts, 0).topic not in cluster.log.topics()


def test_every_step_that_can_be_due_is_in_the_table_and_no_job_gets_stuck() -> None:
    """From every phase but the last two there is a way to ENDED or REJECTED."""
    after: dict[Phase, set[Phase]] = {}
    for (phase, _), (to, _) in TRANSITIONS.items():
        after.setdefault(phase, set()).add(to)
    reached = {Phase.ENDED, Phase.REJECTED}
    while more := {phase for phase, to in after.items() if to & reached} - reached:
        reached |= more
    assert reached == set(Phase)
    assert {step for _, step in TRANSITIONS} == set(Step)
