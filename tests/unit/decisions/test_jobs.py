"""A snapshot of jobs stands for the records of `jobs.plans` and `jobs.submit` below it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import structs

from holdfast.schemas import commands, plans
from holdfast.schemas.commands import Command
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Ended, Kept, Plan, Record, Rejection, Retirement, Seed, Snapshot
from holdfast.schemas.retired import Retired
from holdfast.schemas.topics import ClusterTopics, Partition, generation
from holdfast.services.decisions import jobs as folding
from holdfast.services.decisions.admitted import Admitted
from holdfast.services.decisions.jobs import Jobs, Submissions, plausible
from holdfast.services.decisions.shares import beginning_of
from holdfast.services.log.late.jobs import feed_kept, positions, read_jobs
from holdfast.services.log.memory import MemoryLog
from tests.unit.controller.cluster import CLUSTER, Cluster, job

TOPICS = ClusterTopics()
PLANS, SUBMIT = Partition(TOPICS.plans, 0), Partition(TOPICS.submit, 0)


@pytest.fixture(scope="module")
def template() -> Plan:
    """A plan as a controller makes one."""
    cluster = Cluster()
    cluster.start("w")
    cluster.submit(job())
    cluster.pass_s(1)
    return cluster.plan()


class Logs:
    """Both logs, folded as they are written."""

    def __init__(self, template: Plan) -> None:
        self.log, self._template = MemoryLog(lambda: 7), template
        self.log.create(TOPICS.specs())
        self.jobs, self.submissions = Jobs(), Submissions()

    def submit(self, value: bytes) -> int:
        offset = self.log.put(SUBMIT, value, None, None)
        self.submissions.read(offset, 7, value)
        return offset

    def ask(self, command: str, job: str = "job", **more: Any) -> int:
        return self.submit(commands.encode(Command(command, job, **more)))

    def decide(self, record: Record) -> int:
        value = plans.encode(record)
        offset = self.log.put(PLANS, value, None, None)
        self.jobs.read(offset, 7, value)
        return offset

    def named(self) -> str:
        """A job is submitted; its generation."""
        value = msgspec.json.encode({"name": "job"})
        return generation(self.submit(value), 7, value)

    def runs(self, seed: Seed | None = None) -> str:
        g = self.named()
        was = self._template.generation
        plan = plans.decode(plans.encode(self._template).replace(was.encode(), g.encode()))
        assert isinstance(plan, Plan)
        self.decide(structs.replace(plan, seed=seed))
        return g

    def ends(self, g: str) -> None:
        plan = self.jobs.admitted.plan(g)
        assert plan is not None
        self.decide(Ended("job", g, Id("c", int(g.split("-")[0]) + 10**6), plan.id, "cancelled", records=5))

    def snapshot(self) -> Snapshot:
        known = self.jobs.known()
        submit = self.submissions.decided(known, self.jobs.admitted.retired)
        return self.jobs.snapshot(submit, self.submissions.kept(submit, known), "c", 0)

    def agrees(self, snapshot: Snapshot) -> bool | None:
        plans_agree = self.jobs.check(self.jobs.next, snapshot)
        return plans_agree and self.submissions.check(snapshot, *self.jobs.known_then(snapshot.upto))


@pytest.fixture
def logs(template: Plan) -> Logs:
    return Logs(template)


def test_a_job_that_runs_is_kept_as_it_was_decided_with_what_its_user_asked_for(logs: Logs) -> None:
    g = logs.runs()
    paused, drained = logs.ask("pause"), logs.ask("drain")
    logs.ask("resume")  # refused, since it drains
    logs.ask("cancel", job="other")
    made = logs.snapshot()
    assert [one.offset for one in made.commands] == [paused, drained]
    (kept,) = made.decisions
    assert (kept.offset, kept.time_ms, kept.record.encode()) == (0, 7, next(logs.log.scan(PLANS)).value())
    begun = Jobs(made)
    assert begun.admitted.plan(g) == logs.jobs.admitted.plan(g)
    assert begun.records() == logs.jobs.records()
    assert logs.agrees(made)


def test_the_last_of_commands_that_replace_each_other_is_kept(logs: Logs) -> None:
    logs.runs()
    for worker in ("w1", "w2"):
        moved = logs.ask("move", unit="s-0", worker=worker)
    for scheme in ("hybrid", "passive", "hybrid", "none of ours"):
        logs.ask("scheme", unit="s-0", scheme=scheme)
    logs.ask("move", unit="no unit", worker="w1")
    logs.ask("drill", unit="no unit")
    for control in ("accept", "pause", "accept", "resume", "pause"):
        last = logs.ask(control)
    assert [one.offset for one in logs.snapshot().commands] == [moved, moved + 2, moved + 3, last - 2, last]


def test_a_command_behind_a_switch_replaces_none_before_it(logs: Logs, template: Plan) -> None:
    """Before the switch is decided it may concern either generation: a later reader keeps both."""
    leads = logs.runs()
    begin = {name: structs.replace(one, batch=5) for name, one in beginning_of(template).tasks.items()}
    seed = Seed("topic", "id", 5, begin, {}, replaces=leads, waits=True)
    waits = logs.runs(seed)
    pause, switch, resume = logs.ask("pause"), logs.ask("switch", generation=waits), logs.ask("resume")
    again = logs.ask("pause")
    assert [one.offset for one in logs.snapshot().commands] == [pause, switch, again]
    logs.submissions.agreed(logs.snapshot())
    plan = logs.jobs.admitted.plan(waits)
    assert plan is not None
    began = structs.replace(seed, waits=False, switched=switch)
    logs.decide(structs.replace(plan, id=Id("c", 10**6), prev=plan.id, seed=began))
    assert [one.offset for one in logs.snapshot().commands] == [pause, again]
    assert resume not in {one.offset for one in logs.snapshot().commands}


def test_the_last_command_for_each_checkpoint_policy_is_kept(logs: Logs) -> None:
    logs.runs()
    for policy in ("nor this", "sweep", "aligned", "sweep", "none of ours"):
        last = logs.ask("checkpoint", policy=policy)
    assert [one.offset for one in logs.snapshot().commands] == [last - 2, last - 1, last]


def test_the_last_of_moves_and_drills_of_a_unit_is_kept(logs: Logs) -> None:
    logs.runs()
    logs.ask("move", unit="s-0", worker="w1")
    drilled = logs.ask("drill", unit="s-0")
    assert [one.offset for one in logs.snapshot().commands] == [drilled]
    moved = logs.ask("move", unit="s-0", worker="w2")
    assert [one.offset for one in logs.snapshot().commands] == [moved]


def test_a_job_that_is_not_decided_is_not_left_behind(logs: Logs) -> None:
    logs.ends(logs.runs())
    undecided = logs.named()
    logs.ask("cancel")
    made = logs.snapshot()
    assert made.submit == int(undecided.split("-")[0])
    beyond = msgspec.structs.replace(made, submit=made.submit + 1)
    assert logs.agrees(made)
    assert logs.agrees(beyond) is False


def test_a_snapshot_that_differs_in_any_part_is_found_out(logs: Logs) -> None:
    logs.ends(logs.runs())
    logs.runs()
    logs.ask("cancel")
    made = logs.snapshot()
    wrong = (
        {"decisions": made.decisions[1:]},
        {"commands": ()},
        {"commands": (Kept(3, 7, commands.encode(Command("drain", "job")).decode()),)},
        {"retired": Retired(1)},
        {"upto": made.upto + 1},
    )
    assert logs.agrees(made)
    for change in wrong:
        assert logs.agrees(msgspec.structs.replace(made, **change)) is False, change


def test_an_agreed_snapshot_gives_the_same_as_all_records(logs: Logs) -> None:
    snapshots = []
    for _ in range(3):
        g = logs.runs()
        logs.ask("pause")
        made = logs.snapshot()
        assert logs.agrees(made)
        logs.submissions.agreed(made)
        snapshots.append(made)
        logs.ask("resume")
        logs.ends(g)
    logs.runs()
    last = logs.ask("pause")
    assert [one.offset for one in logs.snapshot().commands] == [last]
    assert logs.agrees(snapshots[0]) is None, "it is of before what is known"


def test_a_snapshot_of_before_the_end_of_a_job_that_is_read_behind_a_later_one_does_not_differ(logs: Logs) -> None:
    """Another controller wrote it, and was slow."""
    g = logs.runs()
    logs.ask("cancel")
    slow = logs.snapshot()
    logs.ends(g)
    later = logs.snapshot()
    assert (slow.submit, later.commands) == (later.submit, ())
    assert logs.agrees(later)
    logs.submissions.agreed(later)
    assert logs.agrees(slow) is None


def test_the_newest_that_are_over_are_kept_and_no_others(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "KEPT_OVER", 2)
    running = logs.runs()
    over: list[str] = []
    for _ in range(4):
        logs.decide(Rejection("job", g := logs.named(), Id("c", 10**7 + len(over)), ()))
        over.append(g)
    retired = logs.jobs.to_retire(logs.submissions.next)
    assert retired is not None
    assert set(retired.kept) == {running, *over[-2:]}
    logs.decide(Retirement(retired))
    assert logs.jobs.known().keys() == {running, *over[-2:]}
    assert logs.jobs.to_retire(logs.submissions.next) is None
    again = Rejection("job", over[0], Id("late", 1), ())
    logs.decide(again)
    assert over[0] not in logs.jobs.known(), "said late, it is no first decision"
    assert logs.agrees(logs.snapshot())


@pytest.mark.parametrize(("kept", "left"), [(1, 1), (3, 4), (4, 4), (None, 4)])
def test_the_number_of_ended_jobs_that_are_kept_is_set(logs: Logs, kept: int | None, left: int) -> None:
    for number in range(4):
        logs.decide(Rejection("job", logs.named(), Id("c", 10**7 + number), ()))
    retired = logs.jobs.to_retire(logs.submissions.next, kept)
    assert (4 if retired is None else len(retired.kept)) == left


def test_a_late_reader_knows_retired_generations_and_takes_no_old_plan_of_them(logs: Logs) -> None:
    """Else the plan that a hung controller appends once more would admit a job that is over."""
    gone = logs.runs()
    old = logs.jobs.admitted.plan(gone)
    assert old is not None
    logs.ends(gone)
    logs.decide(Retirement(Retired(logs.submissions.next)))
    late = Admitted()
    feed_kept(TOPICS, logs.jobs, lambda partition, _offset, _time_ms, value: late.read(plans.decode_any(value)))
    assert late.retired.has(gone)
    assert not late.read(old)


def test_a_job_that_runs_is_not_retired_whoever_says_so(logs: Logs) -> None:
    g = logs.runs()
    logs.decide(Retirement(Retired(10**6)))
    assert logs.jobs.admitted.running().keys() == {g}
    logs.ends(g)
    assert logs.jobs.admitted.ended(g) is not None


def test_a_late_reader_of_trimmed_logs_is_fed_what_counts(logs: Logs) -> None:
    logs.ends(logs.runs())
    g = logs.runs()
    asked = logs.ask("pause")
    for _ in range(2):
        made = logs.snapshot()
        logs.decide(made)
    logs.log.trim({PLANS: made.upto, SUBMIT: made.submit})
    jobs = read_jobs(logs.log, TOPICS)
    assert jobs.admitted.running().keys() == {g}
    assert positions(logs.log, TOPICS, jobs) == {PLANS: logs.jobs.next, SUBMIT: made.submit}
    fed: list[tuple[str, int]] = []
    feed_kept(TOPICS, jobs, lambda at, offset, _, __: fed.append((at.topic, offset)))
    assert fed == [(TOPICS.plans, 0), (TOPICS.plans, 1), (TOPICS.plans, 2), (TOPICS.submit, asked)]


def test_a_late_reader_begins_with_no_snapshot_below_which_submissions_are_gone(logs: Logs) -> None:
    """A controller that had read less of `jobs.submit` wrote it after both logs were trimmed to another one's."""
    logs.ends(logs.runs())
    before = logs.snapshot()
    g = logs.runs()
    made = logs.snapshot()
    assert made.submit > before.submit
    for _ in range(2):
        logs.decide(made)
    for _ in range(2):
        behind = logs.snapshot()
        logs.decide(msgspec.structs.replace(behind, submit=before.submit, commands=before.commands))
    logs.log.trim({PLANS: made.upto, SUBMIT: made.submit})
    jobs = read_jobs(logs.log, TOPICS)
    assert jobs.admitted.running().keys() == {g}
    assert positions(logs.log, TOPICS, jobs)[SUBMIT] >= made.submit


def test_an_impossible_snapshot_is_no_beginning() -> None:
    one = Kept(3, 0, "{}")
    assert plausible(Snapshot(4, 4, (one,), (one,)), 4)
    assert not plausible(Snapshot(5, 4, (one,), (one,)), 4), "it speaks of what comes behind it"
    assert not plausible(Snapshot(3, 4, (one,), ()), 9)
    assert not plausible(Snapshot(4, 3, (), (one,)), 9)
    assert not plausible(Snapshot(4, 4, (one, one), ()), 9)


def test_records_are_decoded_as_they_were_written_and_refused_where_they_are_malformed() -> None:
    for record in (Snapshot(4, 4, (Kept(1, 2, '{"a":"b"}'),), ()), Retirement(Retired(3, ("1-aaaaaa",)), "c", 5)):
        assert plans.decode_any(plans.encode(record)) == record
        with pytest.raises(msgspec.DecodeError):
            plans.decode(plans.encode(record))
    with pytest.raises(msgspec.DecodeError):
        plans.decode_any(b'{"type":"snapshot","upto":-1,"submit":0,"decisions":[],"commands":[]}')


def test_controllers_keep_both_logs_short_and_start_above_what_was_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("KEPT_OVER", 1), ("EVERY", 4)):
        monkeypatch.setattr(folding, name, value)
    monkeypatch.setattr("holdfast.services.decisions.snapshots.TRIM_EVERY_US", 0)
    cluster = Cluster(rooted=4)
    cluster.start("w")
    ended = []
    for _ in range(6):
        cluster.submit(job())
        cluster.pass_s(1)
        ended.append(next(iter(cluster.replicas["c0"].core._admitted.running())))
        cluster.command("cancel")
        cluster.pass_s(2)
    cluster.submit(job())
    cluster.pass_s(1)
    cluster.command("pause")
    for _ in range(8):
        cluster.command("resume", "nobody")
        cluster.pass_s(1)
    shared = [Partition(CLUSTER.plans, 0), Partition(CLUSTER.submit, 0)]
    starts, ends = cluster.log.offsets(shared, "start"), cluster.log.offsets(shared, "end")
    assert all(starts[one] > 0 and ends[one] - starts[one] < 25 for one in shared), (starts, ends)
    before = cluster.replicas["c0"].core
    assert len(before.jobs) <= 3
    late = cluster.start_replica("c1")
    recovery = cluster.start_recovery("r1")
    cluster.pass_s(2)
    (g,) = before._admitted.running()
    assert late.core._admitted.running().keys() == {g}
    assert late.core.jobs[g].control == before.jobs[g].control
    assert late.core.jobs[g].life.phase is before.jobs[g].life.phase
    assert recovery.replica.core.known.admitted.running().keys() == {g}
    tombstones = [m.key() for m in cluster.log.scan(Partition(CLUSTER.status, 0)) if m.value() is None]
    assert f"job@{ended[0]}".encode() in tombstones
    assert "snapshot-differs" not in {event.kind for event in cluster.events()}
    cluster.command("cancel")
    cluster.pass_s(2)
    assert cluster.states()[-1] == "ended"


def test_a_decision_with_bytes_that_are_no_text_is_none(template: Plan) -> None:
    """msgspec passes over the names of fields that it does not know; a snapshot keeps the whole record as text."""
    logs = Logs(template)
    value = plans.encode(Rejection("job", logs.named(), Id("c0", 1), ()))
    torn = value[:-1] + b',"\xe3d\x91":40}'
    with pytest.raises(msgspec.DecodeError):
        logs.jobs.read(0, 7, torn)
    logs.jobs.read(1, 7, value)
    assert [one.record.encode() for one in logs.jobs.records()] == [value]
