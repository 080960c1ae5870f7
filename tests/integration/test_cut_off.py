"""One worker is cut off the broker: its units continue elsewhere; once back, it is a zombie that does no harm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.commands import until
from tests.support.proxy import BACK, FAR, THERE, ProxiedSupervisor
from tests.support.struck import Struck, running, struck_cluster, tolerant

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Struck]:
    with struck_cluster(tmp_path_factory.mktemp("cluster"), ProxiedSupervisor) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("name", "ways", "fail_stop_s"),
    [
        ("switched", (), 300.0),
        pytest.param("promoted", (), 1.5, marks=pytest.mark.long),
        # A worker that nobody hears is in each run of scenario/test_failures.py.
        pytest.param("unheard", (THERE,), 300.0, marks=pytest.mark.long),
        pytest.param("deaf", (BACK,), 300.0, marks=pytest.mark.long),
    ],
)
def test_a_worker_is_cut_off_and_back_and_every_row_is_exact(
    struck: Struck, name: str, ways: tuple[str, ...], fail_stop_s: float
) -> None:
    supervisor = struck.cluster.supervisor
    assert isinstance(supervisor, ProxiedSupervisor)
    pid = struck.pid(FAR)
    until(struck.all_answer, "all are there when units are placed")
    with running(struck, tolerant("hybrid", fail_stop_s), name) as job:

        def led_here() -> list[str]:
            return [unit for unit in job.units if struck.leader_of(unit) == FAR]

        mine = job.under_load(led_here, "it leads a unit")
        with supervisor.cut(*ways):
            job.under_load(lambda: all(struck.leader_of(unit) != FAR for unit in mine), "others lead its units")
            job.await_results()
        job.await_results()
    assert struck.pid(FAR) == pid, "it was there all the time"
