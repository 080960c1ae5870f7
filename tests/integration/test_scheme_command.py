"""`holdfast scheme` changes how a unit is protected while its job runs under load, and refuses what there is not.

Every one of the changes is made on the memory log, in tests/scenario/test_scheme_changes.py; these are a few on Kafka.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.failover.observer import Observer
from schemas import assignments
from schemas.assignments import split_unit_key
from schemas.topics import Partition
from services.kernel.logs.assigned import Assigned
from services.recovery.core.unit.schemes import SCHEMES
from tests.campaign.cluster import DoomedCluster, RunningJob, cluster_of
from tests.campaign.jobs import JOBS
from tests.support.commands import DEADLINE_S, HOLDFAST

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]
WALKS = {
    "events-0": ("hybrid", "active-replication", "passive", "none"),
    "totals-0": ("active-standby", "deployed", "passive-hot", "passive-cold"),
}
LOAD = 5


@dataclass
class Site:
    """A cluster in a folder, and a process that watches it."""

    folder: Path
    cluster: DoomedCluster
    observer: Observer

    def schemes(self, job: str) -> dict[str, str]:
        """Of each unit, by its name, as the last valid assignment says."""
        assigned = Assigned()
        for message in self.cluster.log.scan(Partition(self.cluster.topics.assignments, 0)):
            assigned.read(assignments.decode(message.value() or b""))
        names = ((split_unit_key(key), change.scheme) for key, change in assigned.units().items())
        return {unit: scheme for (name, _, unit), scheme in names if name == job}

    def command(self, *words: str) -> subprocess.Popen[str]:
        whole = [str(HOLDFAST), *words, "--data-dir", str(self.folder)]
        return subprocess.Popen(whole, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("cluster")
    with cluster_of(3, folder) as cluster, Observer(cluster.log, cluster.topics) as observer:
        yield Site(folder, cluster, observer)


def test_units_change_their_schemes_under_load_and_every_row_is_exact(site: Site) -> None:
    job = RunningJob(site.cluster, JOBS["counts"], "walk")
    job.submit()
    job.until(job.caught_up, "it runs")
    for number in range(len(next(iter(WALKS.values())))):
        wanted = {unit: walk[number] for unit, walk in WALKS.items()}
        patience = ("--timeout", f"{DEADLINE_S:g}")
        asked = [site.command("scheme", job.name, unit, scheme, *patience) for unit, scheme in wanted.items()]
        job.until(lambda some=asked: _over(some), "answers", load=LOAD, seconds=2 * DEADLINE_S)  # type: ignore[misc]
        assert [one.returncode for one in asked] == [0, 0], [one.communicate() for one in asked]
        job.until(site.observer.protected, f"all are protected, among them {wanted}", load=LOAD)
        assert site.schemes(job.name).items() >= wanted.items()
    job.drain()
    job.await_end()
    assert job.replayed().exact, job.replayed()
    assert job.problems() == []


def _over(commands: list[subprocess.Popen[str]]) -> bool:
    return all(one.poll() is not None for one in commands)


def test_what_there_is_not_is_refused_with_what_there_is(site: Site) -> None:
    job = RunningJob(site.cluster, JOBS["counts"], "refused")
    job.submit()
    workers = ["worker-1", "worker-2", "worker-3"]
    for words, wrong, valid in (
        (("scheme", job.name, "totals-0", "hybird"), "hybird", list(SCHEMES)),
        (("scheme", job.name, "totals-9", "hybrid"), "totals-9", ["totals-0", "totals-1", "events-0"]),
        (("kill", "worker-9"), "worker-9", workers),
        (("stall", "worker-9", "--seconds", "1"), "worker-9", workers),
    ):
        refused = site.command(*words)
        said, _ = refused.communicate()
        assert refused.returncode == 2, said
        assert [one for one in [wrong, *valid] if one not in said] == [], said
    job.drain()
    job.await_end()
