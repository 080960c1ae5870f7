"""Standbys of one worker on four peers, on real processes: they take over in parallel, and move while rows flow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from string import Template

import pytest

from holdfast.schemas import commands
from holdfast.schemas.assignments import Change
from holdfast.schemas.commands import Command
from holdfast.schemas.events import Event
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.campaign.jobs import JOBS, Job
from tests.support.struck import Struck, StruckJob, struck_cluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
TRIES = 4
FIRST, PEERS = "worker-1", ("worker-2", "worker-3", "worker-4", "worker-5")


def counts(totals: int, period_s: float) -> Job:
    """Two units read, so many count. Each begins without a standby. Any worker may have it: zones are invented here.

    period_s: in which standbys move once.
    """
    job = JOBS["counts"]
    patient = "fail_stop_timeout_s: 300, misses: 50"  # a machine with much to do is late with heartbeats
    wanted = f"{{default: {{scheme: none}}, {patient}, rebalance_period_s: {period_s}, checkpoint"
    text = job.text.template.replace("{default: {scheme: none}, checkpoint", wanted).replace(
        "input: some, parallelism: 2", "input: some, $more"
    )
    assert text.count("$more") == 1, "the job no longer says how many units count"
    text = text.replace("$more", f"parallelism: {totals}") + "placement: {spread_by: none}\n"
    return Job(job.kind, Template(text), job.sources, job.queries, job.check)


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Struck]:
    folder = tmp_path_factory.mktemp("cluster")
    with struck_cluster(folder, workers=1 + len(PEERS), reassign_least_ms=0) as cluster:
        yield cluster


@pytest.fixture
def begun(struck: Struck) -> Iterator[Callable[[Job, str], StruckJob]]:
    """Begins a job all of whose units run on the first worker, under load; if the test fails, it is cancelled."""
    made = list[StruckJob]()

    def begin(job: Job, name: str) -> StruckJob:
        made.append(one := StruckJob(struck, job, name))
        struck.watch(name)
        one.submit()
        one.under_load(lambda: len(struck.schemes()) == len(one.units), "every unit has a place")
        for unit in one.units:
            one._command(commands.encode(Command("move", name, unit=unit, worker=FIRST)))
        one.under_load(lambda: {struck.leader_of(unit) for unit in one.units} == {FIRST}, "all units are on it")
        one.under_load(struck.all_protected, "nothing moves any more")
        return one

    yield begin
    for one in made:
        if not one.draining:
            one.give_up()


def protect(struck: Struck, job: StruckJob) -> None:
    """Each unit gets a standby."""
    ask(struck, job, "hybrid", copies=2)
    job.under_load(struck.all_protected, "every unit is protected")


def ask(struck: Struck, job: StruckJob, scheme: str, copies: int) -> None:
    """Another scheme for every unit; returns when each has so many copies."""
    for unit in job.units:
        job._command(commands.encode(Command("scheme", job.name, unit=unit, scheme=scheme)))
    job.under_load(
        lambda: all(len(struck.change(unit).copies) == copies for unit in job.units), f"each unit has {copies} copies"
    )


def gathered(struck: Struck, job: StruckJob) -> None:
    """All standbys are on one peer: the others are stopped meanwhile. Tried again if a busy recovery replica thought
    that one of those was alive.
    """
    for _ in range(TRIES):
        with ExitStack() as frozen:
            for name in PEERS[1:]:
                frozen.enter_context(struck.frozen(name))
            job.under_load(lambda: struck.answering() == 2, "two workers answer")
            ask(struck, job, "hybrid", copies=2)
            if set(standbys(struck, job).values()) == {PEERS[0]}:
                job.under_load(struck.all_protected, "every unit is protected")
                return
        ask(struck, job, "none", copies=1)
    raise AssertionError("each time a standby came to a worker that is stopped")


def standbys(struck: Struck, job: StruckJob) -> dict[str, str]:
    """The worker, by unit."""
    return {unit: struck.change(unit).copies[1].worker for unit in job.units}


@pytest.mark.long
def test_the_units_of_a_worker_with_eight_come_back_on_four_peers_and_every_row_is_exact(
    struck: Struck, begun: Callable[[Job, str], StruckJob], record_property: Callable[[str, object], None]
) -> None:
    """In each run: unit/recovery and simulated histories hold where standbys lie; here are six workers at once."""
    job = begun(counts(totals=6, period_s=3_600), "eight")
    assert len(job.units) == 8
    protect(struck, job)
    where = standbys(struck, job)
    assert Counter(where.values()) == dict.fromkeys(PEERS, 2)
    epochs = {unit: struck.change(unit).epoch for unit in job.units}
    struck.kill(FIRST)
    job.under_load(lambda: all(struck.change(unit).epoch > epochs[unit] for unit in job.units), "all take over")
    took_over = {unit: struck.changes(unit, epochs[unit])[0].committer for unit in job.units}
    assert {unit: copy.worker for unit, copy in took_over.items() if copy is not None} == where
    job.under_load(struck.protected, "every unit is protected again")
    told = job.under_load(lambda: ended(struck), "the period of instability is told")
    record_property("instability_ms", told[-1].phases_ms["instability"])
    job.await_results()
    job.end_exact()


@pytest.mark.long
def test_a_standby_moves_while_rows_flow_and_takes_over_when_the_worker_is_killed(
    struck: Struck, begun: Callable[[Job, str], StruckJob]
) -> None:
    job = begun(counts(totals=2, period_s=2), "moved")
    gathered(struck, job)
    moved = job.under_load(lambda: [unit for unit in job.units if complete(struck, unit)], "a standby has moved")
    before: Change = complete(struck, moved[0])[-1]
    assert before.copies[1].worker != PEERS[0]
    where, epochs = standbys(struck, job), {unit: struck.change(unit).epoch for unit in job.units}
    struck.kill(FIRST)
    job.under_load(lambda: FIRST not in {struck.leader_of(unit) for unit in job.units}, "others lead")
    led = {unit: struck.leader_of(unit) for unit in moved if not struck.changes(unit, epochs[unit])[1:]}
    assert all(where[unit] == worker for unit, worker in led.items())
    job.under_load(struck.protected, "every unit is protected again")
    assert {"standby-moves", "standby-moved"} <= {one.kind for one in struck.events() if one.job == job.name}
    job.await_results()
    job.end_exact()


def ended(struck: Struck) -> list[Event]:
    """The periods of instability that the first worker's failure began, or was a part of."""
    return [one for one in struck.cluster.events("protected-again") if FIRST in one.detail]


def complete(struck: Struck, unit: str) -> list[Change]:
    """The records by which the new standby took the place of the former one."""
    return [one for one in struck.changes(unit, 0) if one.reason.startswith(Sign.STANDBY_COMPLETE.value)]
