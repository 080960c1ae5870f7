"""Workers and recovery replicas on a log in memory: workers report, replicas decide, copies do what is decided.

Unlike in `memory_cluster` nobody places units by hand after the first time. A worker's turn is a millisecond, so is a
replica's; heartbeats are sent more often than in a real cluster, which makes histories shorter and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schemas import commands, heartbeats
from holdfast.schemas.assignments import Change, unit_key
from holdfast.schemas.commands import Command
from holdfast.schemas.heartbeats import Exit, Heartbeat
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.recovery.replica import Replica
from holdfast.services.worker.process.loop import Worker
from tests.support.memory_cluster import GENERATION, VERSIONS, MemoryCluster

BEAT_MS = 20
MAX_TURNS = 20_000
SNAPSHOT_EVERY = 3


class HostedReplica:
    """A recovery replica and what it reads from the cluster's log."""

    def __init__(self, cluster: DrivenCluster, name: str) -> None:
        names = cluster.cluster
        topics = (names.heartbeats, names.assignments, names.plans, names.submit, names.events)
        standings = read_standings(cluster.log, Partition(names.assignments, 0))
        partitions = {Partition(topic, 0): 0 for topic in topics} | {Partition(names.assignments, 0): standings.next}
        appender, backlog = cluster.log.appender(name), Backlog.of(cluster.log, partitions)
        self._protected: bool | None = None
        self._proposed: dict[str, Change] = {}
        self.replica = Replica(
            name, names, appender, backlog, BEAT_MS, now_us=lambda: cluster.now_ms * 1000, begun=standings,
            snapshot_every=SNAPSHOT_EVERY, calm_ms=cluster.calm_ms,
        )  # fmt: skip
        self._reader = cluster.log.reader(name)
        self._reader.assign(partitions)
        self._cluster = cluster

    def turn(self) -> None:
        self.replica.echo()
        changed = False
        for chunk in self._reader.poll(0):
            self._protected, changed = None, True
            for message in chunk.messages:
                self.replica.read(chunk.partition, message.offset(), self._cluster.now_ms, message.value())
        self.replica.turn()
        core = self.replica.core
        if changed or core.known.proposed != self._proposed:
            core.check_invariants()
            self._proposed = dict(core.known.proposed)

    def protected(self) -> bool:
        """Looks at the units again only once a record was read: heartbeats come every BEAT_MS."""
        if self._protected is None:
            self._protected = not self.replica.core.known.unprotected()
        return self._protected


class DrivenCluster(MemoryCluster):
    """A job. frozen: workers that do nothing; unheard: those that continue, but whose heartbeats are lost.

    calm_ms: as replicas have it; None: nothing moves for balance.
    """

    final = ()  # recovery tries again

    def __init__(
        self,
        job: str,
        workers: int = 3,
        replicas: int = 1,
        delivery_turns: int = 0,
        calm_ms: float | None = None,
        together: bool = False,
    ) -> None:
        """together: the first worker gets all units."""
        super().__init__(job, delivery_turns)
        self.calm_ms = calm_ms
        self.replicas: dict[str, HostedReplica] = {}
        self.frozen: dict[str, Worker] = {}
        self.unheard: set[str] = set()
        self._append(Partition(self.cluster.submit, 0), b"the job, as far as this cluster is concerned")
        for number in range(1, workers + 1):
            self.start(f"w{number}")
        for number in range(1, replicas + 1):
            self.start_replica(f"r{number}")
        self.turn(2 * BEAT_MS)
        started = list(self.workers.values())[: 1 if together else None]
        self.place({unit: [started[number % len(started)]] for number, unit in enumerate(self.units)})
        self.turn()
        self.until(self.protected)

    # -- what fails ---------------------------------------------------------------------------------------------------

    def start_replica(self, name: str) -> None:
        self.replicas[name] = HostedReplica(self, name)

    def kill(self, name: str, notice: bool = True) -> None:
        """notice: its parent reports it."""
        worker = self.workers[name]
        super().kill(name)
        if notice:
            gone = Exit(name, worker.identity.incarnation, self.now_ms)
            self._append(Partition(self.cluster.heartbeats, 0), heartbeats.encode(gone))

    def freeze(self, name: str) -> None:
        self.frozen[name] = self.workers.pop(name)

    def thaw(self, name: str) -> None:
        self.workers[name] = self.frozen.pop(name)

    # -- what is asked for and found ----------------------------------------------------------------------------------

    def ask(self, unit: str, scheme: str) -> None:
        command = Command("scheme", self.plan.job, unit, scheme)
        self._append(Partition(self.cluster.submit, 0), commands.encode(command))

    def move(self, unit: str, worker: str) -> None:
        command = Command("move", self.plan.job, unit, worker=worker)
        self._append(Partition(self.cluster.submit, 0), commands.encode(command))

    def leader_of(self, unit: str) -> str:
        committer = self.change(unit).committer
        assert committer is not None
        return committer.worker

    def change(self, unit: str) -> Change:
        found = self._assigned.of(unit_key(self.plan.job, GENERATION, unit))
        assert found is not None, f"{unit} is not placed"
        return found

    def protected(self) -> bool:
        return all(one.protected() for one in self.replicas.values())

    @property
    def _assigned(self) -> Assigned:
        return next(iter(self.replicas.values())).replica.core.known.assigned

    @property
    def story(self) -> list[str]:
        return next(iter(self.replicas.values())).replica.core.reading.story

    # -- time ---------------------------------------------------------------------------------------------------------

    def turn(self, count: int = 1) -> None:
        for _ in range(count):
            super().turn()
            if self.now_ms % BEAT_MS == 0:
                self._beat()
            for replica in list(self.replicas.values()):
                replica.turn()

    def under_load(self, load: Callable[[], object], condition: Callable[[], bool], what: str) -> None:
        """Takes turns until the condition holds; load: called now and then."""
        for number in range(MAX_TURNS):
            if condition():
                return
            if number % BEAT_MS == 0:
                load()
            self.turn()
        left = [unit for one in self.replicas.values() for unit in one.replica.core.known.unprotected()]
        copies = [f"{name}: {copy}" for name, worker in self.workers.items() for copy in worker.copies()]
        shown = [f"not within {MAX_TURNS} turns: {what}", *self.story[-20:], f"unprotected: {left}", *copies]
        raise AssertionError("\n".join(shown))

    def _beat(self) -> None:
        for worker in self.workers.values():
            who = worker.identity
            if who.worker in self.unheard:
                continue
            beat = Heartbeat(
                who.worker, who.incarnation, self.now_ms, zone=who.worker, slots=who.slots,
                decided=worker.decided, versions=VERSIONS, copies=worker.copies(),
                leaving=worker.leaving,
            )  # fmt: skip
            self._append(Partition(self.cluster.heartbeats, 0), heartbeats.encode(beat))
