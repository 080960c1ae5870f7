"""Counters in heartbeats become rates; a restart of a worker begins them again."""

from __future__ import annotations

import pytest

from holdfast.schemas import heartbeats
from holdfast.schemas.assignments import PRIMARY, Copy, Flags, unit_key
from holdfast.schemas.costs import Costs, TentativeCounts
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import QueryState
from holdfast.services.cli.costs import draw_costs
from holdfast.services.cli.status import status_parts
from holdfast.services.cli.watch import line_of
from holdfast.services.view.costs import RATE_MS, JobCosts, Recovery, _workers
from holdfast.services.view.latencies import WINDOW_MS
from holdfast.services.view.lines import Uncorrected
from tests.unit.view.test_cluster_view import NOW, RUN, TOPICS, Cluster

UNIT = unit_key("flights", "1-aaaaaa", "late-0")


@pytest.fixture
def cluster() -> Cluster:
    copies = Copy("w1", "1", PRIMARY), Copy("w2", "1", Flags(commit=False, process=False, send=False))
    return Cluster().decide(RUN).assign("late-0", 1, *copies)


def beat(cluster: Cluster, time_ms: int, costs: Costs, worker: str = "w1", incarnation: str = "1") -> None:
    record = Heartbeat(worker, incarnation, NOW + time_ms, costs=(costs,))
    cluster.view.read(TOPICS.heartbeats, heartbeats.encode(record))


def found(cluster: Cluster) -> JobCosts:
    return cluster.view.costs(RUN)


def test_rates_are_differences_between_the_first_and_the_last_heartbeat(cluster: Cluster) -> None:
    beat(cluster, 0, Costs(UNIT, {"flights": (100, 5_000)}, {"sink-out": 7}, cpu_ms=50, processed=100, process_ms=40))
    (alone,) = found(cluster).copies
    assert (alone.load, alone.records_per_s, alone.throughput_per_s) == (None, None, 2_500)
    last = Costs(
        UNIT, {"flights": (2_100, 105_000)}, {"sink-out": 27}, unsaved=9, cpu_ms=550, processed=2_100, process_ms=440,
        captures=4, capture_ms=10, state_keys=3,
    )  # fmt: skip
    beat(cluster, 2_000, last)
    (copy,) = found(cluster).copies
    assert (copy.worker, copy.role, copy.load) == ("w1", "primary", 0.25)
    assert (copy.records_per_s, copy.throughput_per_s) == (1_000, 5_000)
    assert (copy.capture_ms, copy.apply_ms, copy.unsaved, copy.state_keys) == (2.5, None, 9, 3)
    into, out = found(cluster).edges
    assert (into.edge, into.unit, into.records, into.bytes) == ("flights", "late-0", 2_100, 105_000)
    assert (into.records_per_s, into.bytes_per_s) == (1_000, 50_000)
    assert (out.edge, out.direction, out.records, out.bytes, out.records_per_s) == ("sink-out", "out", 27, None, 10)


def test_only_the_last_seconds_make_a_rate(cluster: Cluster) -> None:
    for second in range(100):
        beat(cluster, second * 1_000, Costs(UNIT, processed=0 if second < 50 else (second - 50) * 10))
    (copy,) = found(cluster).copies
    assert copy.records_per_s == 10
    beat(cluster, 99_000 + 2 * RATE_MS, Costs(UNIT, processed=490))
    assert found(cluster).copies[0].records_per_s is None, "what is older says nothing of now"


def test_a_copy_at_rest_has_the_throughput_of_its_life(cluster: Cluster) -> None:
    for second in range(5):
        beat(cluster, second * 1_000, Costs(UNIT, processed=500, process_ms=100 + second))
    (copy,) = found(cluster).copies
    assert (copy.records_per_s, copy.throughput_per_s) == (0, 4_807.692)
    beat(cluster, 5_000, Costs(UNIT))
    assert found(cluster).copies[0].throughput_per_s is None


def test_counters_of_another_incarnation_are_not_compared(cluster: Cluster) -> None:
    beat(cluster, 0, Costs(UNIT, processed=5_000))
    beat(cluster, 1_000, Costs(UNIT, processed=6_000))
    beat(cluster, 2_000, Costs(UNIT, processed=10), incarnation="2")
    beat(cluster, 2_100, Costs(UNIT, processed=6_100))  # the former one's last words
    assert found(cluster).copies == (), "the assignment still names the former incarnation"
    cluster.assign("late-0", 2, Copy("w1", "2", PRIMARY))
    (copy,) = found(cluster).copies
    assert copy.records_per_s is None


def test_a_copy_that_counts_records_again_has_no_negative_rate(cluster: Cluster) -> None:
    beat(cluster, 0, Costs(UNIT, {"flights": (100, 10)}))
    beat(cluster, 1_000, Costs(UNIT, {"flights": (80, 8)}))
    assert found(cluster).edges[0].records_per_s == 0


def test_a_query_with_open_tentative_rows_is_tentative_until_its_leader_says_that_all_are_corrected(
    cluster: Cluster,
) -> None:
    def tentative() -> dict[str, Uncorrected]:
        return cluster.view.status(cluster.view.jobs()[0], NOW).tentative

    queries = [QueryState("late", True), QueryState("other", True)]
    cluster.status("1-aaaaaa", "running", queries=queries)
    assert tentative() == {}
    counts = TentativeCounts(9, 2, 1, 6, 0.75)
    beat(cluster, 0, Costs(UNIT, tentative={"late": counts}), worker="w2")
    assert tentative() == {}, "a standby has none open"
    beat(cluster, 0, Costs(UNIT, leads=True, tentative={"late": counts}))
    assert tentative() == {"late": Uncorrected(6, 0.75)}
    status = cluster.view.status(cluster.view.jobs()[0], NOW)
    assert [status.state_of(one) for one in status.queries] == ["tentative", "available"]
    assert "late: 6 tentative rows to be corrected, fidelity 75%" in list(status_parts(status))
    assert "query late is tentative" in line_of(status)
    beat(cluster, 1_000, Costs(UNIT, leads=True, tentative={"late": TentativeCounts(9, 8, 1, 0, 0.75)}))
    assert tentative() == {}
    status = cluster.view.status(cluster.view.jobs()[0], NOW)
    assert status.corrected == {"late": 9}
    assert "late: 9 tentative rows corrected" in list(status_parts(status))


def test_the_latency_of_a_query_is_known_by_its_median_and_its_tail(cluster: Cluster) -> None:
    total_ms = 0
    for batch in range(101):
        total_ms += 900 if batch == 70 else batch
        beat(cluster, batch * 100, Costs(UNIT, leads=True, latencies=batch + 1, latency_ms=total_ms))
    (one,) = found(cluster).latencies
    assert (one.query, one.batches, one.p50_ms, one.p99_ms) == ("out", 100, 50, 100), "what was before is not known"
    beat(cluster, 10_100, Costs(UNIT, leads=True, latencies=103, latency_ms=total_ms + 4_000))
    assert found(cluster).latencies[0].p99_ms == 2_000, "the mean of what came between two heartbeats"
    beat(cluster, 10_100 + WINDOW_MS, Costs(UNIT, leads=True, latencies=104, latency_ms=total_ms + 4_007))
    (one,) = found(cluster).latencies
    assert (one.batches, one.p50_ms, one.p99_ms) == (3, 2_000, 2_000)


def test_counters_that_begin_again_and_those_of_a_standby_are_no_latency(cluster: Cluster) -> None:
    beat(cluster, 0, Costs(UNIT, leads=True, latencies=50, latency_ms=5_000))
    beat(cluster, 100, Costs(UNIT, leads=True, latencies=2, latency_ms=20))
    beat(cluster, 100, Costs(UNIT, latencies=50, latency_ms=5_000), "w2")
    beat(cluster, 200, Costs(UNIT, latencies=51, latency_ms=5_100), "w2")
    assert found(cluster).latencies == ()


def test_a_standby_has_costs_and_no_edges_of_its_own(cluster: Cluster) -> None:
    for worker in ("w1", "w2"):
        beat(cluster, 0, Costs(UNIT, {"flights": (5, 50)}, applies=2, apply_ms=3.0), worker)
    assert [(one.worker, one.role, one.apply_ms) for one in found(cluster).copies] == [
        ("w1", "primary", 1.5),
        ("w2", "secondary", 1.5),
    ]
    assert len(found(cluster).edges) == 1


def test_costs_are_drawn_as_tables(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    draw_costs(found(cluster))
    assert "no copy has reported its costs yet" in capsys.readouterr().out
    beat(cluster, 0, Costs(UNIT, {"flights": (5, 3 * 1024**2)}, {"sink-out": 2}, state_bytes=1_536, restore_ms=12.25))
    draw_costs(found(cluster))
    shown = capsys.readouterr().out
    for part in ("late-0", "1.5 KiB", "3.0 MiB", "12.2", "sink-out"):
        assert part in shown


def test_the_expected_recovery_of_a_unit_is_what_its_copies_say_together(cluster: Cluster) -> None:
    """The leader knows what would be repeated, the standby what it has yet to apply."""
    beat(cluster, 0, Costs(UNIT, recovery_ms=40.0, leads=True))
    (alone,) = found(cluster).recovery
    assert (alone.unit, alone.worker, alone.backup, alone.expected_ms) == ("late-0", "w1", "", 40.0)
    beat(cluster, 100, Costs(UNIT, recovery_ms=2.5), worker="w2")
    (both,) = found(cluster).recovery
    assert (both.worker, both.backup, both.expected_ms) == ("w1", "w2", 42.5)
    assert [(one.worker, one.expected_ms) for one in found(cluster).workers] == [("w1", 42.5)]


def test_beside_what_is_expected_stands_what_the_last_takeover_took(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(cluster, 0, Costs(UNIT, recovery_ms=40.0, leads=True, replay_ms=731.0))
    beat(cluster, 0, Costs(UNIT, recovery_ms=2.5, replay_ms=99.0), worker="w2")
    assert [(one.expected_ms, one.replay_ms) for one in found(cluster).recovery] == [(42.5, 731.0)]
    draw_costs(found(cluster))
    assert "731.0" in capsys.readouterr().out


def test_nobody_expects_anything_of_a_unit_whose_leader_has_not_reported(cluster: Cluster) -> None:
    beat(cluster, 0, Costs(UNIT, recovery_ms=2.5), worker="w2")
    assert (found(cluster).recovery, found(cluster).workers) == ((), ())


def test_the_groups_of_a_worker_recover_in_parallel() -> None:
    lines = [Recovery("a", "w1", "w2", 10.0), Recovery("b", "w1", "w2", 15.0), Recovery("c", "w1", "w3", 20.0)]
    assert [(one.worker, one.expected_ms) for one in _workers(lines)] == [("w1", 25.0)]
