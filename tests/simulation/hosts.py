"""The hosts of a simulated cluster: workers, and Spark drivers without Spark."""

from __future__ import annotations

from random import Random
from typing import Protocol

from schemas.heartbeats import Heartbeat, encode
from schemas.topics import ClusterTopics, Partition
from services.hosting.heartbeats import Reporting
from services.hosting.identity import Identity
from services.kernel.logs.assigned import Assigned
from services.kernel.state.image import MemoryImage
from services.spark.host import HOSTS, Host
from services.worker.process.loop import Worker
from tests.simulation.broker import Broker
from tests.simulation.engine import FakeEngine, SharedNotes
from tests.simulation.images import Images
from tests.simulation.link import LinkBlocking
from tests.simulation.processes import BEAT_US, MAX_IDLE_US, MIN_IDLE_US, VERSIONS, Failed, Process
from tests.simulation.timeline import Timeline


class Hosting(Reporting, Protocol):
    """A worker or a Spark driver."""

    @property
    def leads(self) -> bool: ...


class HostProcess(Process):
    """What hosts copies. mute: its heartbeats are lost; late_us: they come so much later. stuck: its loop does not
    turn. host: None as long as it has not reached the broker."""

    def __init__(
        self,
        name: str,
        own: str,
        broker: Broker,
        timeline: Timeline,
        random: Random,
        failed: Failed,
        topics: ClusterTopics,
        zone: str,
    ) -> None:
        self._topics, self._zone = topics, zone
        self._idle_us = random.choice((10_000, 20_000, MAX_IDLE_US))
        self.mute = self.stuck = False
        self.late_us = 0
        self._beats = 0
        self.host: Hosting | None = None
        super().__init__(name, own, broker, timeline, random, failed)

    def begin_beating(self, host: Hosting, assigned: Assigned) -> None:
        """Once it has reached the broker. assigned: how units stand where it begins to read."""
        self.host = host
        self.began(host.decided + 1, assigned)
        self._signs = self.link.appender("heartbeats")
        self.timeline.after(self.random.randint(0, BEAT_US), self._beat)

    @property
    def leaving(self) -> bool:
        return self.alive and self.host is not None and self.host.leaving

    def _beat(self) -> None:
        if not self.alive:
            return
        self.timeline.after(BEAT_US + self.random.randint(0, 2_000), self._beat)
        if self.frozen or self.mute or self.host is None:
            return
        self._signs.poll()
        self._beats += 1
        record = encode(
            Heartbeat(
                worker=self.name,
                incarnation=self.own,
                time_ms=self.time_ms(),
                sequence=self._beats,
                zone=self._zone,
                slots=self.host.identity.slots,
                decided=self.host.decided,
                versions=VERSIONS,
                copies=self.host.copies(),
                hosts=self.host.identity.hosts,
                leaving=self.host.leaving,
            )
        )
        partition = Partition(self._topics.heartbeats, 0)
        self.timeline.after(self.late_us, lambda: self._signs.append(partition, record))


class WorkerProcess(HostProcess):
    """A worker."""

    def __init__(
        self,
        name: str,
        own: str,
        broker: Broker,
        timeline: Timeline,
        random: Random,
        failed: Failed,
        topics: ClusterTopics,
        zone: str,
        slots: int,
        images: Images,
    ) -> None:
        self._slots, self._images = slots, images
        self.worker: Worker | None = None
        super().__init__(name, own, broker, timeline, random, failed, topics, zone)

    def start(self) -> None:
        self.worker = Worker(
            Identity(self.name, self.own, self._zone, self._slots),
            self.link,
            self._topics,
            clock_ms=self.clock_ms,
            time_ms=self.time_ms,
            versions=VERSIONS,
            image=lambda _: MemoryImage(),
            deliveries=LinkBlocking(self.link),
            restores=LinkBlocking(self.link),
            watch=LinkBlocking(self.link),
        )
        self.begin_beating(self.worker, self.worker._decisions.assigned)

    def turn(self) -> int:
        if self.worker is None or self.stuck:  # without a broker it has not begun
            return MAX_IDLE_US
        self.worker.turn()
        self._images.look(self.own, self.worker)
        wait_us = (self.worker.next_deadline - self.clock_ms()) * 1000
        return int(max(MIN_IDLE_US, min(wait_us, self._idle_us)))


class DriverProcess(HostProcess):
    """A Spark driver over an engine that is none."""

    def __init__(
        self,
        name: str,
        own: str,
        broker: Broker,
        timeline: Timeline,
        random: Random,
        failed: Failed,
        topics: ClusterTopics,
        shared: SharedNotes,
    ) -> None:
        self._shared = shared
        self.driver: Host | None = None
        super().__init__(name, own, broker, timeline, random, failed, topics, "")

    def start(self) -> None:
        self.driver = Host(
            Identity(self.name, self.own, hosts=HOSTS),
            self.link,
            self._topics,
            engine=lambda plan, spark, topics: FakeEngine(self, self._shared, plan, spark, topics),
            fault=lambda: "",
            clock_ms=self.clock_ms,
            time_ms=self.time_ms,
            wait=lambda seconds: None,
        )
        self.begin_beating(self.driver, self.driver._decisions.assigned)

    def turn(self) -> int:
        if self.driver is None or self.stuck:
            return MAX_IDLE_US
        self.driver.turn()
        wait_us = (self.driver.next_deadline - self.clock_ms()) * 1000
        return int(max(MIN_IDLE_US, min(wait_us, self._idle_us)))
