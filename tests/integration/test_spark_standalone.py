"""An operator on a standalone Spark of two workers, one of whose executors is killed under load: every row is exact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.services.node.machine.ports import choose_pair
from tests.integration.test_spark import BRIEFLY, DEADLINE_S, SparkCluster, hourly, windows
from tests.support.cluster import running
from tests.support.standalone_spark import HOST, StandaloneSpark, standalone_spark

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[StandaloneSpark]:
    with standalone_spark(tmp_path / "spark", choose_pair()) as made:
        yield made


@pytest.fixture
def cluster(tmp_path: Path, spark: StandaloneSpark) -> Iterator[SparkCluster]:
    environment = {
        "HOLDFAST_PLUGINS": "tests.support.heavy",
        "HOLDFAST_SPARK_MASTER": spark.url,
        "HOLDFAST_SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_LOCAL_IP": HOST,
        "SPARK_SUBMIT_OPTS": BRIEFLY,
    }
    with running(SparkCluster(tmp_path / "cluster", environment, DEADLINE_S)) as cluster:
        yield cluster


def test_every_window_comes_once_while_an_executor_is_killed_under_load(
    cluster: SparkCluster, spark: StandaloneSpark
) -> None:
    cluster.job("far", {"h": {"spark": "tests.support.heavy:hourly", "input": "flights"}})
    cluster.await_state("far", "running")
    cluster.fly("far", range(3_000))
    cluster.await_delivered("far")
    assert len(spark.executors()) == 2
    before = cluster.delivered("far")
    cluster.fly("far", range(3_000, 4_000))
    spark.kill_executor()
    cluster.fly("far", range(4_000, 6_000))
    cluster.await_delivered("far", before)
    cluster.drain("far")
    assert windows(cluster.rows("out-far")) == hourly(range(6_000))
