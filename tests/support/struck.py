"""A real cluster whose processes are killed and frozen by name, and what became of its units, as `assignments` says."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

from bench.failover.observer import Observer
from holdfast.schemas import assignments, commands
from holdfast.schemas.assignments import Assignment, Change, Copy, split_unit_key
from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from tests.campaign.jobs import JOBS, Job
from tests.support.commands import HOLDFAST, until
from tests.support.doomed_cluster import DoomedCluster, DoomedSupervisor, cluster_of
from tests.support.doomed_worker import Doom
from tests.support.running_job import DoomedJob, NotReached

WORKERS = 3
LOAD = 10
"""Numbers fed at each look, some 500 a second."""


def calm(job: Job, times: int = 2) -> Job:
    """Batches and checkpoints come so many times as seldom as in campaigns: tests share the machine with others."""
    wanted = {
        "interval_ms: 100": f"interval_ms: {100 * times}",
        "batch_interval_ms: 25": f"batch_interval_ms: {25 * times}",
    }
    return _changed(job, wanted)


def tolerant(scheme: str, fail_stop_s: float = 300.0, kind: str = "counts") -> Job:
    """A calm job under a scheme. A worker that is only slow, or frozen for a while, is not given up."""
    wanted = f"{{default: {{scheme: {scheme}}}, fail_stop_timeout_s: {fail_stop_s}, checkpoint"
    return calm(_changed(JOBS[kind], {"{default: {scheme: none}, checkpoint": wanted}))


def _changed(job: Job, words: dict[str, str]) -> Job:
    text = job.text.template
    for former, new in words.items():
        assert former in text, f"the job no longer says {former}"
        text = text.replace(former, new)
    return replace(job, text=Template(text))


class Struck:
    """A cluster under observation. history: valid changes of the watched job with their authors, by the unit's name."""

    def __init__(self, cluster: DoomedCluster, observer: Observer, workers: int = WORKERS) -> None:
        self.cluster, self._observer, self._workers = cluster, observer, workers
        self.history: dict[str, list[tuple[str, Change]]] = {}
        self._assigned = Assigned()
        self._job = ""
        self._reader = cluster.log.reader("struck")
        self._reader.assign({Partition(cluster.topics.assignments, 0): 0})

    # -- processes ----------------------------------------------------------------------------------------------------

    def pid(self, name: str) -> int:
        """Id of a member or `kafka`; waits while it is being started."""

        def found() -> int | None:
            supervisor = self.cluster.supervisor
            if name == "kafka":
                return supervisor.cluster.kafka_pid
            return next(member.pid for member in supervisor.members if member.name == name)

        return int(until(found, f"{name} runs"))

    def kill(self, *names: str) -> None:
        """SIGKILL, to all at the same moment."""
        for pid in [self.pid(name) for name in names]:
            os.kill(pid, signal.SIGKILL)

    def restart_kafka(self) -> None:
        """SIGKILL; returns when its successor answers."""
        former = self.pid("kafka")
        os.kill(former, signal.SIGKILL)
        until(lambda: self.pid("kafka") != former and self.cluster.log.topics(), "Kafka is back")

    @contextmanager
    def frozen(self, name: str, *, by_itself: bool = False) -> Iterator[None]:
        """SIGSTOP until the end of the block. by_itself: it is about to meet a doom that freezes it."""
        pid = self.pid(name)
        if by_itself:
            until(lambda: b") T " in Path(f"/proc/{pid}/stat").read_bytes(), f"{name} is stopped")
        else:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def command(self, *words: str) -> subprocess.Popen[str]:
        """Begins a `holdfast` command on the cluster."""
        whole = [str(HOLDFAST), *words, "--data-dir", str(self.cluster.supervisor.settings.home)]
        return subprocess.Popen(whole, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    # -- units --------------------------------------------------------------------------------------------------------

    def schemes(self) -> dict[str, str]:
        """Schemes of the watched job's units, as the last valid assignments say."""
        self.read()
        return {unit: history[-1][1].scheme for unit, history in self.history.items()}

    def watch(self, job: str) -> None:
        self._job = job
        self.history.clear()

    def read(self) -> None:
        """Reads on in `assignments`."""
        while chunks := [chunk for chunk in self._reader.poll(0) if chunk.messages]:
            for chunk in chunks:
                for message in chunk.messages:
                    self._fold(assignments.decode(message.value() or b""))

    def _fold(self, record: Assignment) -> None:
        for change in self._assigned.read(record):
            job, _, unit = split_unit_key(change.unit)
            if job == self._job:
                self.history.setdefault(unit, []).append((record.author, change))

    def change(self, unit: str) -> Change:
        self.read()
        return self.history[unit][-1][1]

    def changes(self, unit: str, since: int) -> list[Change]:
        """All after the epoch."""
        self.read()
        return [change for _, change in self.history[unit] if change.epoch > since]

    def reasons(self, unit: str, since: int) -> list[str]:
        """Reasons of all changes after the epoch."""
        return [change.reason for change in self.changes(unit, since)]

    def made(self, unit: str, since: int, reason: str) -> Change | None:
        """The first change after the epoch that was made for this reason."""
        return next((change for change in self.changes(unit, since) if change.reason == reason), None)

    def authors(self, unit: str, since: int) -> set[str]:
        """recovery-1, recovery-2, ...: whose changes after the epoch count."""
        self.read()
        return {author[: len("recovery-1")] for author, change in self.history[unit] if change.epoch > since}

    def stance(self, unit: str) -> Stance:
        return stance(self.change(unit))

    def leader_of(self, unit: str) -> str:
        committer = self.change(unit).committer
        assert committer is not None
        return committer.worker

    def answering(self) -> int:
        """Workers."""
        return self._observer.workers()

    def all_answer(self) -> bool:
        return self.answering() == self._workers

    def all_protected(self) -> bool:
        """Every unit, whether all workers answer or not."""
        return self._observer.protected()

    def protected(self) -> bool:
        return self.all_answer() and self.all_protected()

    def events(self) -> list[Event]:
        return self.cluster.events()

    def told(self) -> list[str]:
        """Lines of how the watched job's units came to where they are, and what they are now."""
        self.read()
        changes = [change for history in self.history.values() for _, change in history]
        lines = [f"{one.unit}#{one.epoch}: {one.reason}: {_copies(one)}" for one in changes]
        return [*lines, f"unprotected: {self._observer.unprotected()}"]

    def logs(self) -> str:
        return self.cluster.logs()

    def close(self) -> None:
        self._reader.close()


class StruckJob(DoomedJob):
    """A job under load while its cluster is struck."""

    def __init__(self, struck: Struck, job: Job, name: str) -> None:
        super().__init__(struck.cluster, job, name)
        self.struck = struck

    @property
    def units(self) -> list[str]:
        return self._units

    def begin(self) -> None:
        """Returns when every unit is protected."""
        self.struck.watch(self.name)
        self.submit()
        self.under_load(self._placed, "every unit has two copies")
        self.under_load(self.struck.protected, "every unit is protected")

    def _placed(self) -> bool:
        self.struck.read()
        placed = [history[-1][1] for history in self.struck.history.values()]
        return len(placed) == len(self.units) and all(len(change.copies) == 2 for change in placed)

    def give_up(self) -> None:
        """Cancels it: what comes next is not to wait for it."""
        self._command(commands.encode(commands.Command("cancel", self.name)))

    def under_load(self, condition: Callable[[], Any], what: str) -> Any:
        try:
            return self.until(condition, what, load=LOAD)
        except NotReached as error:
            raise NotReached("\n".join([str(error), *self.struck.told()])) from None

    def until_stance(self, unit: str, wanted: Stance) -> None:
        self.under_load(lambda: self.struck.stance(unit) is wanted, f"{unit} is {wanted.value}")

    def pair(self, unit: str) -> tuple[Copy, Copy, int]:
        """The primary, which leads, and the secondary of the unit, and the epoch: all from one record.

        On a busy machine a unit may have been switched for a moment.
        """

        def settled() -> Change | None:
            change = self.struck.change(unit)
            return change if stance(change) is Stance.NORMAL else None

        change: Change = self.under_load(settled, f"{unit} has a leading primary and a secondary")
        primary, secondary = change.copies
        return primary, secondary, change.epoch

    def frozen_at(self, point: str, unit: str) -> str:
        """Freezes the worker that leads the unit as it reaches the point; returns its name.

        Another may come into charge meanwhile: then it is that one's turn.
        """
        armed = self._arm(point, unit)

        def reached() -> bool:
            nonlocal armed
            if self.struck.leader_of(unit) != armed and self.struck.cluster.withdraw():
                armed = self._arm(point, unit)
            return self.struck.cluster.fired

        self.under_load(reached, f"the leader of {unit} reaches its {point}")
        return armed

    def _arm(self, point: str, unit: str) -> str:
        holder = self.struck.leader_of(unit)
        self.struck.cluster.arm(Doom(point, "before", 3, worker=holder, freeze=True))
        return holder

    def await_results(self) -> None:
        """Returns when all that was fed, and some that is fed now, is processed."""
        self.feed()
        self.until(self.caught_up, "all that was fed is processed")

    def end_exact(self) -> None:
        """Drains it, and compares every row with its recomputation and with the job's own check."""
        self.feed()
        self.drain()
        self.await_end()
        report = self.replayed()
        assert report.rows.results > 0
        assert report.exact, report
        problems = self.problems()
        assert not problems, problems
        self.forget()


@contextmanager
def running(struck: Struck, job: Job, name: str) -> Iterator[StruckJob]:
    """The job with each of its units protected; they are again at the end, and every row is compared."""
    made = StruckJob(struck, job, name)
    try:
        made.begin()
        yield made
        made.under_load(struck.protected, "every unit is protected again")
        made.end_exact()
    except BaseException:
        made.give_up()
        raise
    finally:
        struck.cluster.disarm()


@contextmanager
def struck_cluster(
    folder: Path, kind: type[DoomedSupervisor] = DoomedSupervisor, workers: int = WORKERS, **settings: Any
) -> Iterator[Struck]:
    settings = {"balance_calm_s": 0, **settings}  # what moves is what a test strikes
    with (
        cluster_of(workers, folder, kind, **settings) as cluster,
        Observer(cluster.log, cluster.topics) as observer,
    ):
        struck = Struck(cluster, observer, workers)
        try:
            yield struck
        finally:
            struck.close()


def _copies(change: Change) -> str:
    return ", ".join(f"{copy.worker}{' commits' if copy.flags.commit else ''}" for copy in change.copies)
