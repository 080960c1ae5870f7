"""Only sources retain what was sent, on whole workers: what is trimmed, and who goes back (docs/decisions/0112).

On a log in memory. The test is the coordinator: it states what is complete, and takes units back.
"""

from __future__ import annotations

import pytest

from holdfast.schemas.assignments import PRIMARY, Assignment, Flags, GlobalCheckpoint, job_key
from holdfast.schemas.incidents import Incident
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.policies import in_force
from holdfast.services.kernel.plans.layout import readers
from holdfast.services.kernel.plans.upstream import upstream
from holdfast.services.worker.unit.checkpoints import trimmer
from tests.scenario.test_checkpoint_policies import STANDBY, job
from tests.scenario.test_global_checkpoints import EVERY, Aligned
from tests.support.orders import check


def retaining(buffering: str = "source", copies: tuple[tuple[str, Flags], ...] = (("w1", PRIMARY),)) -> Aligned:
    made = job("aligned", every_batches=EVERY).replace(
        "fault_tolerance: {", f"fault_tolerance: {{buffering: {buffering}, "
    )
    return Retaining(copies, made=made)


def positions(cluster: Aligned, unit: str, batch: int) -> dict[Partition, int]:
    return {Partition(one.topic, one.partition): one.offset for one in cluster.marker(unit, batch).positions}


class Retaining(Aligned):
    """It is over once every last marker is valid, as for a controller."""

    def ended(self) -> bool:
        found = self.published()
        return len(found) == len(self.units) and all(one.ended for one in found.values())


def complete(cluster: Aligned) -> int:
    return cluster.assigned.complete(job_key(cluster.plan.job, cluster.plan.generation))


def beyond(cluster: Aligned) -> set[Partition]:
    """Data partitions that are trimmed to behind what a unit needs that goes back to the newest global checkpoint."""
    k, reading = complete(cluster), readers(cluster.plan, cluster.topics)
    starts = cluster.starts_of_data().items()
    return {p for p, start in starts for unit in reading[p] if start > positions(cluster, unit, k)[p]}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimmer, "OUTPUT_MS", 20)


def sinkmost(cluster: Aligned) -> str:
    above = upstream(cluster.plan)
    return max(cluster.units, key=lambda unit: len(above[unit]))


@pytest.mark.parametrize(("buffering", "trims"), [("upstream", False), ("adaptive", True), ("source", True)])
def test_intermediate_topics_are_trimmed_to_the_newest_markers(buffering: str, trims: bool) -> None:
    cluster, seen = retaining(buffering), set[Partition]()
    reading = readers(cluster.plan, cluster.topics)
    for _ in range(12):
        cluster.run(7, states=False)
        seen |= beyond(cluster) if complete(cluster) else set()
        for partition, start in cluster.starts_of_data().items():
            for unit in reading[partition]:
                newest = max((b for b in range(EVERY, 200, EVERY) if _marked(cluster, unit, b)), default=0)
                assert not start or start <= positions(cluster, unit, newest)[partition], "no standby finds its inputs"
        cluster.state()
        cluster.turn(2)
    assert bool(seen) is trims
    cluster.finish()


def _marked(cluster: Aligned, unit: str, batch: int) -> bool:
    return any(getattr(one, "b", -1) == batch and hasattr(one, "positions") for one in cluster.records_of(unit))


def test_a_unit_that_goes_back_behind_what_is_trimmed_gets_it_again_from_all_above_it() -> None:
    cluster = retaining()
    cluster.run(60)
    cluster.run(14, states=False)
    unit = sinkmost(cluster)
    gone = {partition for partition in beyond(cluster) if unit in readers(cluster.plan, cluster.topics)[partition]}
    assert gone, "nothing that it needs is trimmed"
    k = complete(cluster)
    back = [*sorted(upstream(cluster.plan)[unit]), unit]
    assert cluster.roll_back(back) == k
    cluster.run(60)
    assert all(cluster.published()[one].line == 1 for one in back)
    assert all(one.line == 0 for one in cluster.published().values() if one.unit not in back)
    assert cluster.stated[-1] > k + 2 * EVERY
    cluster.run(14, states=False)
    assert beyond(cluster), "it is trimmed again"
    cluster.finish()


def test_a_unit_waits_for_its_upstream_units_without_an_error() -> None:
    """What they have sent on their former line lies ahead of it, and comes again."""
    cluster = retaining()
    cluster.run(60)
    cluster.run(14, states=False)
    unit, k = sinkmost(cluster), complete(cluster)
    above = sorted(upstream(cluster.plan)[unit])
    cluster.begin_line(above, 1, k)
    cluster.begin_line([unit], 1, k)
    cluster.put([unit])
    cluster.run(20, states=False)
    waiting = cluster.published()[unit]
    assert (waiting.line, waiting.processed) == (1, k), "it has done no batch on its line"
    assert [copy.state for copy in cluster.workers["w1"].copies() if copy.unit.endswith(f"/{unit}")] != ["failed"]
    cluster.put(above)
    cluster.run(60)
    assert cluster.published()[unit].processed > k
    cluster.finish()


def test_in_an_incident_nothing_is_trimmed_and_after_it_once_a_global_checkpoint_is_complete() -> None:
    cluster = retaining("adaptive")
    cluster.run(60)
    cluster.run(14, states=False)
    k = complete(cluster)

    def say(number: int, over: bool) -> None:
        one = Incident(cluster.plan.job, cluster.plan.generation, number, ("w9",), complete=k, over=over, planned=True)
        cluster.append_decision(Assignment("recovery", cluster.now_ms, (), incidents=(one,)))
        cluster.turn(60)  # a trim under way

    say(1, False)
    held = cluster.starts_of_data()
    cluster.run(30, states=False)
    assert cluster.starts_of_data() == held
    say(2, True)
    cluster.run(10, states=False)
    assert cluster.starts_of_data() == held
    cluster.state()
    cluster.run(10, states=False)
    assert sum(cluster.starts_of_data().values()) > sum(held.values())
    cluster.finish()


def test_no_unit_ends_before_a_global_checkpoint_has_passed_its_last_batch() -> None:
    """b may go back to k, and needs what a has sent since; a has sent its end."""
    cluster = retaining()
    cluster.run(40)
    cluster.run(14, states=False)
    unit = sinkmost(cluster)
    above, k = sorted(upstream(cluster.plan)[unit]), complete(cluster)
    cluster.control("drain")
    for _ in range(400):
        cluster.turn()
        if all(cluster.published()[one].ended for one in above):
            break
    states = {copy.unit.rpartition("/")[2]: copy.state for copy in cluster.workers["w1"].copies()}
    assert all(states[one] == "running" for one in above)
    cluster.roll_back([*above, unit])
    cluster.until(cluster.ended)
    check(cluster.rows, cluster.fed[: cluster.number])
    cluster.turn(20)
    assert {copy.state for copy in cluster.workers["w1"].copies()} == {"running"}
    assert k == complete(cluster)


def test_a_unit_ends_once_a_global_checkpoint_has_passed_its_last_batch_and_stays_ended() -> None:
    cluster = retaining()
    cluster.run(40)
    cluster.control("drain")
    cluster.until(cluster.ended)
    last = max(one.processed for one in cluster.published().values())
    state = Assignment("controller", cluster.now_ms, (), checkpoints=(_checkpoint(cluster, last),))
    cluster.append_decision(state)
    cluster.turn(20)
    assert {copy.state for copy in cluster.workers["w1"].copies()} == {"ended"}


def _checkpoint(cluster: Aligned, batch: int) -> GlobalCheckpoint:
    since = in_force(cluster.plan, cluster.assigned).since
    return GlobalCheckpoint(cluster.plan.job, cluster.plan.generation, batch, since, 0)


def test_a_standby_and_a_copy_that_rebuilds_itself_find_all_that_they_need() -> None:
    cluster = retaining(copies=(("w1", PRIMARY), ("w2", STANDBY)))
    cluster.run(60)
    cluster.run(14, states=False)
    assert beyond(cluster)
    cluster.kill("w1")
    cluster.copies_of = dict.fromkeys(cluster.units, (("w2", PRIMARY),))
    cluster.put()
    cluster.run(30)
    for copy in cluster.workers["w2"]._copies.here.values():
        copy.broken("a test")
    cluster.run(30)
    assert max(one.line for one in cluster.published().values()) == 0, "nobody has gone back"
    cluster.finish()
