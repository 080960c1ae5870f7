"""The cluster-scale model: the paper's golden values, and its margins at 20 workers (MECHANISMS C6, W8 to W10, Z4)."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from bench.model.cluster import Cluster, Settings
from bench.model.failover import Failover
from bench.model.loads import SLICE_MS, Load, added, bursty, constant
from bench.model.machines import SPELL_MS, TAKEN, Machine, Spell, spells
from bench.model.streams import drawn, even, names, steady, whole
from bench.model.units import Fixed, Unit, Windowed
from holdfast.services.worker.checkpoint.policies.idle import Capture
from holdfast.services.worker.checkpoint.policies.idle_minmax import Credit

ROBIN, MINMAX = "idle-roundrobin", "idle-minmax"


# -- the paper's three units ------------------------------------------------------------------------------------------


def three(policy: str, seconds: float, credit: Credit = Credit.PASTE) -> Cluster:
    """On S1; pastes take no time."""
    units = [
        Unit("u1", "S1", "S2", constant(0.11), Fixed(125.0, 125.0)),
        Unit("u2", "S1", "S2", constant(0.10), Fixed(250.0, 250.0)),
        Unit("u3", "S1", "S3", constant(0.665), Fixed(125.0, 125.0)),
    ]
    settings = Settings(policy, credit, min_interval_ms=0, sample_ms=10.0)
    return Cluster(settings, units, ["S1", "S2", "S3"], {"S2": math.inf, "S3": math.inf}).run(seconds * 1000)


def captures(cluster: Cluster) -> dict[str, list[float]]:
    """When each unit was captured, in seconds."""
    found: dict[str, list[float]] = {}
    for at_ms, _, chosen in cluster.story:
        assert isinstance(chosen, Capture)
        found.setdefault(chosen.unit, []).append(round(at_ms / 1000, 3))
    return found


def test_the_model_captures_as_in_the_papers_figures() -> None:
    assert captures(three(ROBIN, 5.5)) == {"u1": [0, 4], "u2": [1, 5], "u3": [3]}
    assert captures(three(MINMAX, 12.5)) == {"u1": [4, 9, 12], "u2": [6], "u3": [0, 1, 2, 3, 5, 8, 10, 11]}


def test_all_ways_to_compare_captures_with_pastes_are_equal_where_nothing_is_pasted() -> None:
    assert three(MINMAX, 12.5, Credit.BOTH).story == three(MINMAX, 12.5).story
    assert three(MINMAX, 12.5, Credit.NEITHER).story == three(MINMAX, 12.5).story


@pytest.mark.slow
def test_min_max_lowers_the_mean_expected_recovery_as_in_the_paper() -> None:
    means = {policy: fmean(one.workers["S1"] for one in three(policy, 60).samples) for policy in (ROBIN, MINMAX)}
    assert means[MINMAX] / means[ROBIN] == pytest.approx(0.697, abs=0.03)


# -- tens of workers --------------------------------------------------------------------------------------------------


def worst_ms(units: list[Unit], hosts: list[str], policy: str, seconds: float = 12.0) -> float:
    cluster = Cluster(Settings(policy), units, hosts).run(seconds * 1000)
    return fmean(max(one.workers.values()) for one in cluster.samples if one.at_ms > seconds * 500)


@pytest.mark.long
def test_a_worker_that_holds_many_images_is_better_off_if_a_capture_is_not_credited() -> None:
    """What each credit does to one decision is held by the golden values above."""
    hosts = names(12)
    found = {}
    for credit in Credit:
        made = Cluster(Settings(MINMAX, credit), drawn(hosts, steady(0.8), random.Random(3), 0.8), hosts).run(10_000)
        found[credit] = fmean(max(one.workers.values()) for one in made.samples if one.at_ms > 5_000)
    assert found[Credit.PASTE] <= found[Credit.NEITHER] < 0.5 * found[Credit.BOTH], found


def test_the_same_seed_gives_the_same_story() -> None:
    def story() -> list[object]:
        hosts = names(4)
        made = Cluster(Settings(MINMAX), drawn(hosts, steady(0.8), random.Random(3), 0.8), hosts).run(4_000)
        return [*made.story, *(one.workers for one in made.samples)]

    assert story() == story()


def test_workers_that_are_fully_loaded_capture_nothing_and_continue() -> None:
    hosts = names(3)
    units = even(hosts, lambda: constant(0.5), 0.8)
    cluster = Cluster(Settings(MINMAX), units, hosts).run(3_000)
    assert cluster.story == []
    assert all(one > 0 for one in cluster.samples[-1].workers.values())


def test_a_capture_in_pieces_makes_nobody_wait() -> None:
    hosts = names(3)
    waited = {}
    for defers in (True, False):
        cluster = Cluster(Settings(ROBIN, defers=defers), even(hosts, steady(0.8), 0.8), hosts).run(5_000)
        waited[defers] = max(max(one.latency_ms.values()) for one in cluster.samples)
    assert waited[False] == 0.0 < waited[True]


def test_a_worker_captured_as_one_makes_tuples_wait_longer_and_recovers_later() -> None:
    hosts = names(4)
    fine = even(hosts, steady(0.8), 0.8)
    found = {}
    for name, units in (("fine", fine), ("whole", whole(fine, hosts))):
        cluster = Cluster(Settings(ROBIN), units, hosts).run(10_000)
        last = cluster.samples[len(cluster.samples) // 2 :]
        waits = [max(one.latency_ms.values()) for one in last]
        found[name] = fmean(fmean(one.workers.values()) for one in last), fmean(waits)
    assert found["fine"][0] < found["whole"][0]
    assert found["fine"][1] < 0.5 * found["whole"][1]


def test_a_reassigned_backup_gets_a_full_checkpoint_first() -> None:
    hosts = names(3)
    units = [Unit(f"u{n}", "s00", "s01", constant(0.1), Windowed(60.0, 0.6)) for n in range(4)]
    units += [Unit("v", "s01", "s02", constant(0.01), Windowed(1.0, 0.5))]
    units += [Unit("w", "s02", "s01", constant(0.01), Windowed(1.0, 0.5))]
    cluster = Cluster(Settings(MINMAX, rebalance_ms=2_000), units, hosts).run(2_000)
    moved = [state for state in cluster._states.values() if state.moving]
    assert moved
    assert all(state.backup == "s01" for state in moved), "the old image stays"
    assert all(math.isinf(state.elapsed_ms(2_000)) for state in moved), "the next capture takes in everything"
    cluster.run(6_000)
    assert {state.backup for state in cluster._states.values() if state.unit.primary == "s00"} == {"s01", "s02"}


# -- loads and costs --------------------------------------------------------------------------------------------------


def test_a_load_is_the_sum_of_its_slices() -> None:
    load = added([Load((0.1, 0.3)), constant(0.2)])
    assert [load.at(ms) for ms in (0, SLICE_MS, 10 * SLICE_MS)] == pytest.approx([0.3, 0.5, 0.5])
    assert load.done_ms(2.5 * SLICE_MS) == pytest.approx((0.3 + 0.5 + 0.25) * SLICE_MS)
    assert load.done_ms(-1.0) == 0.0


def test_bursts_have_the_mean_and_deviation_of_the_trace() -> None:
    shares = bursty(0.2, 0.35, 4_000, random.Random(1)).shares
    mean = fmean(shares)
    deviation = math.sqrt(fmean((share - mean) ** 2 for share in shares))
    assert mean == pytest.approx(0.2, rel=0.03)
    assert deviation / mean == pytest.approx(0.35, rel=0.1)


def test_the_cost_of_windows_is_that_of_the_paper_and_flat_past_their_size() -> None:
    costs = Windowed(scale=100.0, power=0.0, aggregates=1)
    assert costs.windows(2_000) == (200, 800)
    assert costs.capture_ms(2_000) == pytest.approx(1 + 200 * 0.0186 + 800 * 0.0073)
    assert costs.capture_ms(10_000) == costs.capture_ms(60_000) == costs.capture_ms(math.inf)


# -- failovers --------------------------------------------------------------------------------------------------------


def failed_over(scheme: str, busy: tuple[Spell, ...], seconds: float = 6.0) -> Failover:
    machines = [Machine("first", "a", 1, busy), Machine("second", "b", 1, phase_ms=30.0)]
    return Failover(machines, {"u": "first"}, scheme, seed=1).run(seconds)


STARVED = (Spell(3_000.0, 5_000.0, (0.1,)),)


def test_a_unit_on_calm_machines_is_not_switched_under_any_scheme() -> None:
    for scheme in ("none", "passive", "hybrid", "active-replication"):
        made = failed_over(scheme, ())
        assert made.switches == 0
        assert max(next(iter(made.units.values())).delays_ms()[200:]) <= 10.0


def test_hybrid_switches_away_from_a_starved_machine_and_back() -> None:
    delays = {}
    for scheme in ("none", "hybrid", "active-replication"):
        made = failed_over(scheme, STARVED)
        delays[scheme] = fmean(next(iter(made.units.values())).delays_ms()[100:])
    assert delays["active-replication"] < delays["hybrid"] < delays["none"]
    made = failed_over("hybrid", STARVED, 10.0)
    change = made.core.known.assigned.of(next(iter(made.units)))
    assert change is not None
    assert (made.switches, change.copies[0].worker, change.switched) == (2, "first", False)


def test_transient_loads_last_for_the_share_that_was_asked_for() -> None:
    found = spells(0.4, 200_000.0, random.Random(2))
    assert sum(one.to_ms - one.from_ms for one in found) == pytest.approx(0.4 * 200_000.0)
    assert fmean(one.to_ms - one.from_ms for one in found) == pytest.approx(SPELL_MS)
    assert 0.0 < found[0].from_ms < found[-1].to_ms <= 200_000.0
    assert spells(0.0, 1_000.0, random.Random(2)) == ()


def test_a_transient_load_takes_what_the_paper_s_takes_all_or_nothing_at_a_time() -> None:
    free = [share for one in spells(0.9, 2_000_000.0, random.Random(3)) for share in one.free]
    assert set(free) == {0.0, 1.0}
    assert 1.0 - fmean(free) == pytest.approx(fmean(TAKEN), abs=0.02)
    machine = Machine("m", "a", 1, (Spell(1_000.0, 2_000.0, (0.0, 1.0)),))
    assert [machine.free(at) for at in (999.0, 1_000.0, 1_099.0, 1_100.0, 1_200.0, 2_000.0)] == [1, 0, 0, 1, 0, 1]
