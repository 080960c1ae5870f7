"""`holdfast scheme` changes how a unit is protected while its job runs under load, and refuses what there is not.

Every one of the changes is made on the memory log, in tests/scenario/test_scheme_changes.py; these are a few on Kafka.
"""

from __future__ import annotations

import subprocess

import pytest

from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES
from tests.campaign.jobs import JOBS
from tests.support.commands import DEADLINE_S
from tests.support.struck import Struck, StruckJob

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
WALKS = {
    "events-0": ("hybrid", "active-replication", "passive", "none"),
    "totals-0": ("active-standby", "deployed", "passive-hot", "passive-cold"),
}
LOAD = 5


@pytest.mark.long
def test_units_change_their_schemes_under_load_and_every_row_is_exact(struck: Struck) -> None:
    job = StruckJob(struck, JOBS["counts"], "walk")
    struck.watch(job.name)
    job.submit()
    job.until(job.caught_up, "it runs")
    for number in range(len(next(iter(WALKS.values())))):
        wanted = {unit: walk[number] for unit, walk in WALKS.items()}
        patience = ("--timeout", f"{DEADLINE_S:g}")
        asked = [struck.command("scheme", job.name, unit, scheme, *patience) for unit, scheme in wanted.items()]
        job.until(lambda some=asked: _over(some), "answers", load=LOAD, seconds=2 * DEADLINE_S)  # type: ignore[misc]
        assert [one.returncode for one in asked] == [0, 0], [one.communicate() for one in asked]
        job.until(struck.protected, f"all are protected, among them {wanted}", load=LOAD)
        assert struck.schemes().items() >= wanted.items()
    job.drain()
    job.await_end()
    assert job.replayed().exact, job.replayed()
    assert job.problems() == []
    job.forget()


def _over(commands: list[subprocess.Popen[str]]) -> bool:
    return all(one.poll() is not None for one in commands)


def test_an_unknown_scheme_unit_or_worker_is_refused_with_the_valid_names(struck: Struck) -> None:
    job = StruckJob(struck, JOBS["counts"], "refused")
    job.submit()
    workers = ["worker-1", "worker-2", "worker-3"]
    for words, wrong, valid in (
        (("scheme", job.name, "totals-0", "hybird"), "hybird", list(SCHEMES)),
        (("scheme", job.name, "totals-9", "hybrid"), "totals-9", ["totals-0", "totals-1", "events-0"]),
        (("kill", "worker-9"), "worker-9", workers),
        (("stall", "worker-9", "--seconds", "1"), "worker-9", workers),
    ):
        refused = struck.command(*words)
        said = "".join(refused.communicate())
        assert refused.returncode == 2, said
        assert [one for one in [wrong, *valid] if one not in said] == [], said
    job.drain()
    job.await_end()
