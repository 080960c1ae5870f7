"""Rounds of `./scripts/campaign brokers`: one job under load whose brokers are struck, and now and then a worker, too.

Every row is judged twice: by the job's own check, which knows the rows from the input alone, and by `replay`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from string import Template

import msgspec

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import CommandFailed, Retriable
from holdfast.services.log.protocol import Log
from tests.campaign.broker_containers import ContainerCluster
from tests.campaign.broker_faults import BrokerFaults
from tests.campaign.jobs import JOBS, SEQUENCES, Job, check_sequences, value
from tests.campaign.kills import Outcome, Strike, charged
from tests.campaign.plain import Plain
from tests.campaign.silences import Follower, silence_ms
from tests.support.doomed_cluster import DoomedCluster
from tests.support.running_job import KEYED, NotReached, RunningJob

LOAD = 10
"""Numbers fed between two looks: some hundred a second."""
CALM_S = 1.0
"""Under load before a strike, so that results come."""
WORKERS_TOO = 0.3
"""In so many of the strikes a worker is killed as well."""
HEALTHY_S = 180.0
SCHEMES = ("hybrid", "hybrid", "active-standby", "passive-hot", "passive", "none")
PACE = {"batch_interval_ms: 25": "batch_interval_ms: 100", "interval_ms: 100}": "interval_ms: 500}"}
"""Three brokers, three workers and what restarts on two cores: with fewer, larger batches a broker is back in half the
time, and a campaign gets through twice as many faults.
"""
SILENT = ("sequences", "counts")
"""Jobs that put out rows all the time: only their silence is a measure."""


def job_of(kind: str, chance: random.Random) -> Job:
    """A job of the campaign, or the one whose rows are known in their order, under any scheme."""
    if kind != "sequences":
        return replace(JOBS[kind], text=Template(_paced(JOBS[kind].text.template)))
    text = SEQUENCES.replace("$scheme", chance.choice(SCHEMES))
    return Job(kind, Template(_paced(text)), ("ordered",), ("totals",), check_sequences)


def _paced(text: str) -> str:
    for quick, slow in PACE.items():
        text = text.replace(quick, slow)
    return text


OF_OURS = ("changes",)
"""Jobs with code of this repository's tests, which images do not have."""


def kinds(*, images: bool = False) -> list[str]:
    """In turn; every other one is judged row by row in its order. images: workers run from images."""
    return [kind for other in JOBS if not (images and other in OF_OURS) for kind in ("sequences", other)]


class BrokerRound:
    """A job from its submission to the check of its rows."""

    def __init__(self, cluster: DoomedCluster | ContainerCluster, faults: BrokerFaults, plain: Plain, kind: str,
                 name: str, chance: random.Random) -> None:  # fmt: skip
        self._cluster, self._faults, self._plain, self._chance = cluster, faults, plain, chance
        self._job = RunningJob(cluster, job_of(kind, chance), name)
        self._topics: list[str] = []

    def run(self, wanted: Sequence[Strike], done: Callable[[], None]) -> list[Outcome]:
        """Runs the strikes. A job that is not exact is left as it is, to be looked at."""
        outcomes: list[Outcome] = []
        job = self._job
        try:
            self._calm("the cluster is whole")
            job.submit()
            self._topics = [name for name in self._cluster.log.topics() if name.startswith((f"{job.name}-", job.root))]
            with Follower(self._cluster.log, self._sinks()) as follower:
                for strike in wanted:
                    outcomes.append(self._strike(strike, follower))
                    done()
            job.feed()
            job.drain()
            job.await_end()
            outcomes = charged(outcomes, job.replayed(), [*self._input_problems(), *job.problems()])
        except (NotReached, CommandFailed, Retriable) as error:
            known = outcomes or [Outcome(wanted[0].point, "", job.job.kind, job.name, fired=False)]
            problem = f"{type(error).__name__}: {error}; units {job.where()}"
            return [*known[:-1], msgspec.structs.replace(known[-1], problem=problem)]
        if all(one.exact for one in outcomes):
            with suppress(Retriable):
                job.forget()
        return outcomes

    def _strike(self, strike: Strike, follower: Follower) -> Outcome:
        job = self._job
        job.until(job.caught_up, "all that was fed is processed", load=0, seconds=HEALTHY_S)
        self._under_load(CALM_S)
        first, struck = job.batch, time.monotonic()
        what = self._faults.strike(strike.point, self._topics, self._under_load)
        worker = self._cluster.kill(self._chance) if self._chance.random() < WORKERS_TOO else ""
        ended = time.monotonic()
        self._calm(f"after {strike.point} of {what}, the cluster is whole")
        job.until(job.caught_up, f"after {strike.point} of {what}, all is processed", load=0, seconds=HEALTHY_S)
        back = time.monotonic()
        measured = job.job.kind in SILENT and not worker
        return Outcome(
            strike.point,
            "",
            job.job.kind,
            job.name,
            fired=True,
            first=first,
            last=job.batch,
            back_ms=round(1000 * (back - ended)),
            silence_ms=silence_ms(follower.seen, struck, back) if measured else 0,
            plain_ms=silence_ms(self._plain.seen, struck, back) if measured else 0,
        )

    def _calm(self, what: str) -> None:
        def whole() -> bool:
            return self._cluster.all_run() and self._faults.healthy()

        try:
            self._job.until(whole, what, load=LOAD if self._topics else 0, seconds=HEALTHY_S)
        except NotReached as late:
            lacking = self._faults.lacking() or "the brokers are healthy"
            raise NotReached(f"{late}; all workers run: {self._cluster.all_run()}; {lacking}") from late

    def _under_load(self, seconds: float) -> None:
        self._job.run_for(seconds, LOAD)

    def _sinks(self) -> list[Partition]:
        job = self._job
        return [Partition(f"{job.name}-{q}", i) for q in job.job.queries for i in range(2 if q in KEYED else 1)]

    def _input_problems(self) -> list[str]:
        """Differences of the topics from what was fed: if there are any, the feeder is to blame and nobody else."""
        return [
            text for source in self._job.job.sources for text in input_problems(self._cluster.log, self._job, source)
        ]


def input_problems(log: Log, job: RunningJob, source: str) -> list[str]:
    """Differences of a source's topic from what was fed."""
    found = [[m.value() for m in log.scan(Partition(f"{job.name}-{source}", index))] for index in range(2)]
    fed = [[value(source, number) for number in range(index, job.fed, 2)] for index in range(2)]
    return (
        []
        if found == fed
        else [f"the input: {[len(f) for f in found]} records of {source}, not {[len(f) for f in fed]}"]
    )
