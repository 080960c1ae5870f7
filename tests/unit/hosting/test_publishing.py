"""What a copy reports is a line of the log: of which job, unit and epoch, and how far the copy is."""

from __future__ import annotations

from structlog.testing import capture_logs

from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB, orders


def test_an_event_of_a_copy_is_logged_with_job_unit_epoch_and_batch() -> None:
    cluster = MemoryCluster(JOB)
    cluster.feed("orders", orders(50))
    with capture_logs() as lines:
        first = cluster.start("w1")
        cluster.place({unit: [first] for unit in cluster.units})
        cluster.turn(600)
        second = cluster.start("w2")
        cluster.place({unit: [second] for unit in cluster.units})
        cluster.turn(600)
    of_copies = [line for line in lines if line.get("unit")]
    assert {line["unit"] for line in of_copies} == set(cluster.units)
    assert all(line["job"] == cluster.plan.job for line in of_copies)
    active = [line for line in of_copies if line["event"] == "unit-active"]
    assert {line["epoch"] for line in active} == {1, 2}
    assert all(line["batch"] > 0 for line in active)
    others = [line for line in lines if not line.get("unit")]
    assert not [line for line in others if "epoch" in line or "batch" in line], "what is not known is left out"
