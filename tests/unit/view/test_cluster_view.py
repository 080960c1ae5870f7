"""What the topics say is folded into what commands print, in any state a cluster may be in."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from holdfast.schemas import assignments, heartbeats, plans, progress
from holdfast.schemas.assignments import Assignment, Change, Copy, Flags, unit_key
from holdfast.schemas.decided import Id
from holdfast.schemas.heartbeats import CopyState, Exit, Heartbeat, Turn
from holdfast.schemas.outages import Outage
from holdfast.schemas.plans import Ended, OperatorPlan, Plan, Problem, Rejection, Skip, Status, UnitPlan
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import ClusterTopics
from holdfast.services.cli.status import status_parts
from holdfast.services.view.cluster import ClusterView
from holdfast.services.view.protection import said
from holdfast.services.view.workers import natural

TOPICS = ClusterTopics("t")
NOW = 1_700_000_000_000


def plan(job: str, generation: str) -> Plan:
    return Plan(
        job=job,
        generation=generation,
        id=Id("controller", int(generation[0])),
        spec={},
        operators=(
            OperatorPlan("late", "filter", 2, (), {"filter": "true"}, {}),
            OperatorPlan("sink-out", "sink", 2, (), {"query": "out", "topic": "out", "partitions": 1}, {}),
        ),
        edges=(),
        units=tuple(UnitPlan(f"late-{i}", i, ("late", "sink-out"), i) for i in range(2)),
        sources=(),
        sink_partitions={"out": 1},
        interval_ms=10,
        versions={},
        warnings=("careful",),
    )


RUN = plan("flights", "1-aaaaaa")


class Cluster:
    """A view, and short words for what it reads."""

    def __init__(self) -> None:
        self.view = ClusterView(TOPICS)

    def decide(self, *decisions: plans.Decision) -> Cluster:
        for decision in decisions:
            self.view.read(TOPICS.plans, plans.encode(decision))
        return self

    def status(self, generation: str, state: str, **more: object) -> Cluster:
        status = msgspec.convert(
            {"job": "flights", "generation": generation, "state": state, "time_ms": 0, **more}, Status
        )
        self.view.read(TOPICS.status, plans.encode(status))
        return self

    def assign(self, unit: str, epoch: int, *copies: Copy, scheme: str = "hybrid") -> Cluster:
        change = Change(unit_key("flights", "1-aaaaaa", unit), epoch, copies, scheme=scheme)
        self.view.read(TOPICS.assignments, assignments.encode(Assignment("controller", NOW, (change,))))
        return self

    def note(self, outage: Outage) -> Cluster:
        self.view.read(TOPICS.assignments, assignments.encode(Assignment("r", NOW, (), outages=(outage,))))
        return self

    def beat(
        self, worker: str, incarnation: str, time_ms: int = NOW, copies: tuple[CopyState, ...] = (),
        turn: Turn | None = None, standbys: int = -1,
    ) -> Cluster:  # fmt: skip
        beat = Heartbeat(
            worker, incarnation, time_ms, pid=7, zone="zone-1", slots=8, copies=copies, turn=turn, standbys=standbys
        )
        self.view.read(TOPICS.heartbeats, heartbeats.encode(beat))
        return self

    def exit(self, worker: str, incarnation: str) -> Cluster:
        self.view.read(TOPICS.heartbeats, heartbeats.encode(Exit(worker, incarnation, NOW)))
        return self

    def since_ms(self) -> int:
        return self.view.status(self.view.jobs()[0], NOW).since_ms

    def progress(self, record: Progress) -> Cluster:
        self.view.read_progress("1-aaaaaa", progress.encode(record))
        return self

    def states(self) -> dict[str, str]:
        return {worker.worker: worker.state for worker in self.view.workers(NOW)}

    def unit_states(self) -> dict[str, str]:
        job = self.view.find("flights")
        assert job is not None
        return {unit.unit: unit.state for unit in self.view.status(job, NOW).units}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def copy(worker: str, incarnation: str, **flags: bool) -> Copy:
    return Copy(worker, incarnation, msgspec.convert(flags, Flags))


def running(unit: str, batch: int) -> CopyState:
    return CopyState(unit_key("flights", "1-aaaaaa", unit), 1, "running", batch)


def test_a_job_is_listed_from_its_first_status_to_its_end(cluster: Cluster) -> None:
    cluster.status("1-aaaaaa", "accepted")
    assert [(job.state, job.units) for job in cluster.view.jobs()] == [("accepted", 0)]
    cluster.decide(RUN).status("1-aaaaaa", "running", available=2, units=2)
    assert [(job.state, job.available, job.units) for job in cluster.view.jobs()] == [("running", 2, 2)]
    cluster.decide(Ended("flights", "1-aaaaaa", Id("controller", 9), RUN.id, "drained"))
    assert [(job.state, job.available) for job in cluster.view.jobs()] == [("ended", 0)]


def test_jobs_that_write_to_the_same_topic_are_named_until_they_end(cluster: Cluster) -> None:
    cluster.decide(RUN, plan("delays", "2-bbbbbb")).status("1-aaaaaa", "running").status("2-bbbbbb", "running")
    assert cluster.view.shared_sinks("2-bbbbbb") == {"out": ["flights"]}
    cluster.decide(Ended("flights", "1-aaaaaa", Id("controller", 9), RUN.id, "drained"))
    assert cluster.view.shared_sinks("2-bbbbbb") == cluster.view.shared_sinks("3-cccccc") == {}


def test_a_name_means_its_newest_job_that_was_admitted(cluster: Cluster) -> None:
    cluster.decide(RUN, Ended("flights", "1-aaaaaa", Id("c", 9), RUN.id, "cancelled"), plan("flights", "2-bbbbbb"))
    cluster.status("10-cccccc", "rejected", problems=[{"path": "name", "message": "in use", "hint": ""}])
    assert [job.generation for job in cluster.view.jobs()] == ["1-aaaaaa", "2-bbbbbb", "10-cccccc"]
    found = [cluster.view.find(name) for name in ("flights", "flights@1-aaaaaa", "flights@10-cccccc", "other")]
    assert [job and job.generation for job in found] == ["2-bbbbbb", "1-aaaaaa", "10-cccccc", None]
    rejected = found[2]
    assert rejected is not None
    assert rejected.problems == ({"path": "name", "message": "in use", "hint": ""},)


def test_a_job_that_only_was_rejected_is_found(cluster: Cluster) -> None:
    cluster.decide(Rejection("flights", "3-dddddd", Id("c", 1), (Problem("name", "bad"),)))
    cluster.status("3-dddddd", "rejected")
    job = cluster.view.find("flights")
    assert job is not None
    assert (job.state, cluster.view.plan("3-dddddd")) == ("rejected", None)
    assert cluster.view.status(job, NOW).units == ()


def test_units_show_wanted_copies_with_what_they_report(cluster: Cluster) -> None:
    cluster.decide(RUN)
    first = copy("worker-1", "b")
    second = copy("worker-2", "b", commit=False, send=False)
    cluster.assign("late-0", 1, first, second).beat("worker-1", "b", copies=(running("late-0", 40),))
    cluster.beat("worker-2", "a", copies=(running("late-0", 39),))
    cluster.progress(Progress("late-0", processed=42, acked=30))
    placed, unplaced = cluster.view.units(RUN)
    assert (placed.unit, placed.tasks, placed.scheme, placed.epoch) == ("late-0", ("late-0", "sink-out-0"), "hybrid", 1)
    assert [(one.worker, one.role, one.batch, one.state) for one in placed.copies] == [
        ("worker-1", "primary", 42, "running"),
        ("worker-2", "secondary", 0, "unknown"),
    ]
    assert (unplaced.scheme, unplaced.epoch, unplaced.copies) == ("none", 0, ())
    shown = msgspec.json.decode(msgspec.json.encode(placed))
    assert shown["copies"][1]["flags"] == {
        "state": "live", "receive": True, "process": True, "send": False, "commit": False,
        "checkpoint_target": False,
    }  # fmt: skip


def test_a_change_at_a_taken_epoch_is_not_shown(cluster: Cluster) -> None:
    cluster.decide(RUN).assign("late-0", 1, copy("worker-1", "a")).assign("late-0", 1, copy("worker-2", "a"))
    assert cluster.view.units(RUN)[0].copies[0].worker == "worker-1"


def test_a_worker_whose_loop_hangs_says_where(cluster: Cluster) -> None:
    cluster.beat("worker-1", "a", turn=Turn(1_200, 5_000, "j@1/u")).beat(
        "worker-2", "a", turn=Turn(6_000, 5_000, "j@1/u")
    )
    assert cluster.states() == {"worker-1": "live", "worker-2": "stuck"}
    assert [one.turn for one in cluster.view.workers(NOW)] == ["", "stuck for 6.0 s in j@1/u"]


def test_workers_are_live_silent_or_exited_and_only_the_newest_incarnation_counts(cluster: Cluster) -> None:
    cluster.beat("worker-10", "a").beat("worker-2", "a", NOW - 5000).beat("worker-1", "a").exit("worker-1", "a")
    assert cluster.states() == {"worker-1": "exited", "worker-2": "silent", "worker-10": "live"}
    cluster.beat("worker-1", "a")
    assert cluster.states()["worker-1"] == "exited", "a heartbeat still in flight revives nothing"
    cluster.beat("worker-1", "b").exit("worker-1", "a").beat("worker-1", "a", NOW + 1)
    assert cluster.states()["worker-1"] == "live"
    assert cluster.exit("worker-9", "a").states().keys() == {"worker-1", "worker-2", "worker-10"}


def test_workers_count_the_copies_that_are_assigned_to_them(cluster: Cluster) -> None:
    cluster.decide(RUN).beat("worker-1", "b").assign("late-0", 1, copy("worker-1", "b"))
    cluster.assign("late-1", 1, copy("worker-1", "a"))
    (worker,) = cluster.view.workers(NOW)
    assert (worker.copies, worker.units, worker.pid, worker.slots) == (1, ("flights@1-aaaaaa/late-0",), 7, 8)


def test_status_sums_progress_and_shows_who_is_down(cluster: Cluster) -> None:
    cluster.decide(RUN).status("1-aaaaaa", "running", available=1, units=2)
    assert cluster.unit_states() == {"late-0": "unplaced", "late-1": "unplaced"}
    cluster.assign("late-0", 1, copy("worker-1", "a")).assign("late-1", 1, copy("worker-2", "a"))
    cluster.beat("worker-1", "a", copies=(running("late-0", 5),)).beat("worker-2", "a", copies=(running("late-1", 5),))
    assert cluster.unit_states() == {"late-0": "running", "late-1": "running"}
    cluster.exit("worker-2", "a").beat("worker-1", "a", NOW - 2000, (running("late-0", 5),))
    assert cluster.unit_states() == {"late-0": "silent", "late-1": "down"}
    cluster.progress(Progress("late-0", 5, 3, watermark=1_000_000, records=10, late=1, dead=2))
    cluster.progress(Progress("late-1", 5, 3, watermark=2**63 - 1, records=20, lost=3, ended=True))
    job = cluster.view.find("flights")
    assert job is not None
    status = cluster.view.status(job, NOW)
    assert (status.records, status.late, status.dead, status.lost) == (30, 1, 2, 3)
    assert [unit.watermark for unit in status.units] == ["1970-01-01T00:00:01+00:00", "end"]
    assert status.warnings == ("careful",)


def test_shortages_of_a_job_are_known_after_its_end_from_its_last_words(cluster: Cluster) -> None:
    def shown() -> tuple[int, int, int, dict[str, int]]:
        job = cluster.view.find("flights")
        assert job is not None
        status = cluster.view.status(job, NOW)
        assert status.late_dropped == cluster.view.late_dropped(RUN)
        return status.records, status.late, status.lost, status.late_dropped

    cluster.decide(RUN).status("1-aaaaaa", "draining", units=2)
    assert shown() == (0, 0, 0, {})
    counts = {"records": 30, "late": 5, "lost": 1, "late_dropped": {"flights": 4}}
    cluster.status("1-aaaaaa", "draining", units=2, **counts)
    assert shown() == (30, 5, 1, {"flights": 4}), "its topics are deleted, its end is not decided"
    cluster.decide(Ended("flights", "1-aaaaaa", Id("c", 9), RUN.id, "drained", **counts))  # type: ignore[arg-type]
    cluster.status("1-aaaaaa", "ended", units=2)
    assert shown() == (30, 5, 1, {"flights": 4})
    cluster.progress(Progress("late-0", 5, 3, records=30, late=5, late_dropped={"flights": 4}))
    assert shown() == (30, 5, 1, {"flights": 4}), "each is counted once, where a job keeps its progress"


def test_progress_never_goes_back(cluster: Cluster) -> None:
    cluster.decide(RUN).progress(Progress("late-0", 9, 8)).progress(Progress("late-0", 5, 3))
    job = cluster.view.find("flights")
    assert job is not None
    assert cluster.view.status(job, NOW).units[0].processed == 9


def test_records_that_cannot_be_read_are_left_out(cluster: Cluster) -> None:
    for topic in (TOPICS.plans, TOPICS.status, TOPICS.assignments, TOPICS.heartbeats):
        cluster.view.read(topic, b"\xff{")
        cluster.view.read(topic, None)
        cluster.view.read(topic, b'{"type": "other"}')
    cluster.view.read_progress("1-aaaaaa", b"{}")
    assert (cluster.view.jobs(), cluster.view.workers(NOW)) == ([], [])


def test_status_shows_what_workers_refused_of_the_jobs_topics_and_what_was_skipped(cluster: Cluster) -> None:
    cluster.decide(RUN, plan("other", "2-bbbbbb"))
    own, others = "t.flights.1-aaaaaa.cuts", "t.other.2-bbbbbb.cuts"
    for worker, refused in (("w1", {own: 2, others: 9}), ("w2", {own: 1, TOPICS.plans: 4}), ("w3", {own: 50})):
        beat = Heartbeat(worker, "1", NOW, refused=refused)
        cluster.view.read(TOPICS.heartbeats, heartbeats.encode(beat))
    cluster.exit("w3", "1")
    for offset in (7, 8, 8):
        cluster.view.read(TOPICS.plans, plans.encode(Skip("flights", "1-aaaaaa", own, 0, offset, NOW)))
    line = cluster.view.find("flights")
    assert line is not None
    found = cluster.view.status(line, NOW)
    assert (found.refused, found.skipped) == ({own: 3, TOPICS.plans: 4}, 2)


def test_names_sort_as_people_count() -> None:
    assert sorted(["worker-10", "worker-2", "spark-1"], key=natural) == ["spark-1", "worker-2", "worker-10"]


def test_a_job_is_in_its_state_since_the_first_status_that_says_so() -> None:
    cluster = Cluster().decide(RUN).status("1-aaaaaa", "running", since_ms=NOW - 9_000)
    cluster.status("1-aaaaaa", "failed", since_ms=NOW - 5_000, error="division by zero")
    cluster.status("1-aaaaaa", "running")  # it has not heard the workers yet
    cluster.status("1-aaaaaa", "failed", error="division by zero")
    assert cluster.since_ms() == NOW - 5_000, "a controller that started later does not know"
    cluster.status("1-aaaaaa", "cancelling")
    assert cluster.since_ms() == 0


def test_the_status_names_units_whose_standbys_have_no_place() -> None:
    primary, standby = Copy("w1", "1", Flags()), Copy("w2", "1", Flags(commit=False, process=False, send=False))
    cluster = Cluster().decide(RUN).status("1-aaaaaa", "running")
    cluster.assign("late-0", 1, primary, standby).assign("late-1", 1, primary)
    cluster.beat("w1", "1", standbys=0).beat("w2", "1", standbys=1)
    (job,) = cluster.view.jobs()
    assert cluster.view.status(job, NOW).unserved == ("late-1",)
    cluster.beat("w3", "1")
    assert cluster.view.status(job, NOW).unserved == ()
    assert cluster.view.status(job, NOW + 5_000).unserved == (), "nobody answers, so nobody knows"


def test_the_status_names_units_that_are_out_and_the_fidelity_until_they_have_recovered() -> None:
    cluster = Cluster().decide(RUN).status("1-aaaaaa", "running")
    cluster.assign("late-0", 1, Copy("w1", "1", Flags())).assign("late-1", 1, Copy("w2", "1", Flags()))
    first = Outage("flights", "1-aaaaaa", "late-0", 1, 1, 7, {"q": 0.5})
    second = Outage("flights", "1-aaaaaa", "late-1", 1, 1, 7, {"q": 0.0})
    cluster.note(first).note(second).assign("late-0", 2, Copy("w3", "1", Flags()))
    (job,) = cluster.view.jobs()
    found = cluster.view.status(job, NOW)
    assert (found.out, found.fidelity) == (("late-0", "late-1"), {"q": 0.0})
    cluster.note(structs.replace(second, fidelity={"q": 0.5}, over=True))
    found = cluster.view.status(job, NOW)
    assert (found.out, found.fidelity) == (("late-0",), {"q": 0.5})
    lines = [str(part) for part in status_parts(found)]
    assert "out, and not recovered yet: late-0; the others give, of all rows: q 50%" in lines
    cluster.note(structs.replace(first, fidelity={"q": 1.0}, over=True))
    found = cluster.view.status(job, NOW)
    assert (found.out, found.fidelity) == ((), {})


def test_a_unit_without_a_standby_says_why() -> None:
    primary, standby = Copy("w1", "1", Flags()), Copy("w2", "1", Flags(commit=False, process=False, send=False))
    cluster = Cluster().decide(RUN).status("1-aaaaaa", "running")
    cluster.assign("late-0", 1, primary).assign("late-1", 1, primary).beat("w1", "1")
    (job,) = cluster.view.jobs()
    assert cluster.view.unprotected(job, NOW) == {"one worker": ("late-0", "late-1")}
    cluster.beat("w2", "1").assign("late-0", 2, primary, standby)
    assert cluster.view.unprotected(job, NOW) == {"a standby is being made": ("late-1",)}
    assert cluster.view.status(job, NOW).unprotected == cluster.view.unprotected(job, NOW)
    cluster.assign("late-1", 2, primary, scheme="none")
    assert cluster.view.unprotected(job, NOW) == {"scheme none": ("late-1",)}
    cluster.assign("late-1", 3, primary, scheme="passive")
    assert cluster.view.unprotected(job, NOW) == {}, "another worker can take it"
    cluster.exit("w2", "1").assign("late-0", 3, primary)
    assert cluster.view.unprotected(job, NOW) == {"one worker": ("late-0", "late-1")}
    cluster.status("1-aaaaaa", "ended")
    assert cluster.view.unprotected(cluster.view.jobs()[0], NOW) == {}


def test_the_units_are_named_where_not_all_of_the_job_are_unprotected() -> None:
    assert said({"one worker": ("a-0", "b-0")}, 2) == ["unprotected: one worker"]
    assert said({"scheme none": ("a-0",)}, 2) == ["unprotected: scheme none (a-0)"]
