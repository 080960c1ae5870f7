"""A topic of the user is deleted and created again while the job runs: the fault, and what the checkers need for it.

The records of a deleted topic can be read by nobody, so the fault waits until every copy has processed them, and the
user keeps further records back: from there on the results are those of what the cuts name, exactly. What happens to a
batch in between is in docs/decisions/0026, and tests/scenario/test_replaced_topics.py has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING
from unittest import mock

import msgspec

from holdfast.schemas import cuts, plans
from holdfast.schemas.cuts import Cut
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.audit import replay, taken_in
from holdfast.services.audit.sources import Taken
from holdfast.services.decisions.admitted import Admitted
from holdfast.services.decisions.cuts import CutLog, of_plan
from tests.simulation.kafka.broker import Broker, decisions
from tests.simulation.kafka.names import TOPICS
from tests.simulation.observers.reference import Reference
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.feeds import Feed, draw_growth
from tests.simulation.processes.jobs import NAME

if TYPE_CHECKING:
    from tests.simulation.faults.fault import Fault

LOOK_US = 20_000
STOPPED_WITHIN_MS = 6_000
"""After all faults, when the job should long be stopped, the user writes to the new topic anyway."""
ASKED_EVERY_MS = 1_500


class Reading:
    """The cut log of the simulated job as far as it is written; None for the plan before there is one."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.plan: Plan | None = None
        self.log: CutLog | None = None
        self.busy: dict[str, int] = {}
        """The last batch of each task that holds a record."""
        self.read_from: dict[tuple[str, int], str] = {}
        """The id of the topic whose records a task's batch holds."""

    def look(self) -> CutLog | None:
        self.plan = self.plan or self._planned()
        topic = "" if self.plan is None else TOPICS.job(NAME, self.plan.generation).cuts
        if self.plan is None or topic not in self._broker.topics():
            return None
        self.log = self.log or of_plan(self.plan)
        for message in list(self._broker.scan(Partition(topic, 0), self.log.upto)):
            try:
                record = cuts.decode(message.value() or b"")
            except msgspec.DecodeError:
                continue
            if self.log.read(message.offset(), record) and isinstance(record, Cut):
                self._take(record)
        return self.log

    def _take(self, cut: Cut) -> None:
        assert self.log is not None
        self.read_from[cut.task, cut.batch] = self.log.known(cut.task.rpartition("-")[0])[-1]
        if any(r.stop > r.start for r in cut.ranges):
            self.busy[cut.task] = cut.batch

    def _planned(self) -> Plan | None:
        admitted = Admitted()
        for decision in decisions(self._broker.written):
            if admitted.read(decision) and isinstance(decision, Plan):
                return decision
        return None

    def tasks(self, topic: str) -> list[str]:
        """The source tasks that read a topic."""
        sources = () if self.plan is None else self.plan.sources
        return [f"{s.operator}-{index}" for s in sources if s.topic == topic for index in range(len(s.owners))]

    def continues(self, topic: str, id: str) -> bool:
        """All sources of the topic read the one with that id."""
        log, sources = self.look(), () if self.plan is None else self.plan.sources
        own = [source.operator for source in sources if source.topic == topic]
        return log is not None and all(log.known(one)[-1:] == (id,) and one not in log.replaced for one in own)


def replaced(cluster: Cluster, fault: Fault) -> None:
    """detail: a user's topic, and where the job is to continue; it is gone for ms, and then has count partitions."""
    topic, start = fault.detail.split(" ")
    if topic not in cluster.held:
        cluster.held[topic] = []
        _Renewal(cluster, topic, start, fault.ms, fault.count).begin()


def sink_gone(cluster: Cluster, fault: Fault) -> None:
    """detail: a sink's topic, which is gone for ms and comes back empty."""
    topic = fault.detail
    if topic in cluster.held:
        return
    count, cluster.held[topic] = cluster.broker.topics()[topic], []
    cluster.broker.remove(topic)

    def back() -> None:
        cluster.broker.create([TopicSpec(topic, count)])
        del cluster.held[topic]

    cluster.timeline.after(fault.ms * 1000, back)


class _Renewal:
    """Renewal of a topic by the user, step by step."""

    def __init__(self, cluster: Cluster, topic: str, start: str, gone_ms: int, partitions: int) -> None:
        self._cluster, self._topic, self._start = cluster, topic, start
        self._gone_ms, self._partitions = gone_ms, partitions
        self._random = Random(f"{cluster.seed}/renewal/{cluster.timeline.now_us}")
        self._reading = Reading(cluster.broker)
        self._asked_us = self._created_us = 0
        self._id, self._was = "", dict[str, int]()

    def begin(self) -> None:
        self._when(self._read_out, self._delete)

    def _when(self, reached: Callable[[], bool], then: Callable[[], None]) -> None:
        if reached():
            then()
        else:
            self._cluster.timeline.after(LOOK_US, lambda: self._when(reached, then))

    def _read_out(self) -> bool:
        """Every record of the topic is cut, and all copies and the last marker are past it."""
        log, broker = self._reading.look(), self._cluster.broker
        workers = self._cluster.workers()
        if log is None or broker.away or any(not w.alive or w.frozen or w.worker is None for w in workers):
            return False
        tasks = self._reading.tasks(self._topic)
        stops = {r.partition: r.stop for task in tasks for r in log.task(task).ranges}
        stored = [broker.stored(Partition(self._topic, index)) for index in range(broker.topics()[self._topic])]
        if any(one.read(stop := stops.get(index, 0), one.end - stop) for index, one in enumerate(stored)):
            return False
        busy = {unit.name: self._busy(unit.operators, unit.index) for unit in self._reading.plan.units}  # type: ignore[union-attr]
        known = [(c.unit.rpartition("/")[2], c) for w in workers for c in w.worker.copies()]  # type: ignore[union-attr]
        durable = {unit: max((c.durable for name, c in known if name == unit), default=0) for unit in busy}
        passed = all(c.state == "deployed" or c.batch >= busy[unit] for unit, c in known if busy.get(unit))
        return passed and all(durable[unit] >= batch for unit, batch in busy.items())

    def _busy(self, operators: Sequence[str], index: int) -> int:
        own = {f"{name}-{index}" for name in operators} & set(self._reading.tasks(self._topic))
        return max((self._reading.busy.get(task, 0) for task in own), default=0)

    def _delete(self) -> None:
        self._cluster.story.tell(f"{self._topic} is deleted")
        self._was = dict(self._reading.busy)
        self._cluster.broker.remove(self._topic)
        self._cluster.timeline.after(self._gone_ms * 1000, self._create)

    def _create(self) -> None:
        self._cluster.broker.create([TopicSpec(self._topic, self._partitions)])
        self._id = self._cluster.broker.describe([self._topic])[self._topic].id
        self._created_us = self._cluster.timeline.now_us
        self._cluster.story.tell(f"{self._topic} is created again as {self._id}")
        self._when(lambda: self._stopped() or self._long_ago(), self._refill)

    def _stopped(self) -> bool:
        last = self._cluster.broker.last(Partition(TOPICS.status, 0))
        return last is not None and plans.decode_status(last.value() or b"").state == "stopped"

    def _long_ago(self) -> bool:
        since_us = max(self._created_us, self._asked_us, self._cluster.healed_us or 2**62)
        return self._cluster.timeline.now_us - since_us > STOPPED_WITHIN_MS * 1000

    def _refill(self) -> None:
        """Records, for a while, until the new topic is larger than the old one was."""
        cluster, now_ms = self._cluster, self._cluster.timeline.now_ms
        past = max(one.end for one in cluster.broker.past[-1].stored)
        for one in draw_growth(self._random, self._topic, range(self._partitions), now_ms, now_ms + 500):
            cluster.timeline.at(one.at_ms * 1000, partial(cluster.feed, one, freely=True))
        for index in range(self._partitions):
            values = draw_growth(self._random, self._topic, [index], now_ms, now_ms)[0].values
            many = Feed(now_ms, self._topic, index, values[:1] * (past + 1))
            cluster.timeline.after(0, partial(cluster.feed, many, freely=True))
        pause_us = self._random.randint(600_000, 2_000_000)
        cluster.timeline.after(pause_us, partial(self._when, self._check_continued, self._release))

    def _check_continued(self) -> bool:
        """Asks for that, and asks again, as long as the job is stopped."""
        cluster = self._cluster
        if self._reading.continues(self._topic, self._id):
            return True
        if self._stopped() and cluster.timeline.now_us - self._asked_us > ASKED_EVERY_MS * 1000:
            self._asked_us = cluster.timeline.now_us
            cluster.submit({"command": "resume", "job": NAME, "start": self._start})
        if not self._stopped() and self._long_ago():
            if self._reading.busy == self._was:  # else the checkers see what was read
                cluster.wrong.append(f"replaced: {self._topic} is another topic, and the job is not stopped")
            return True
        return False

    def _release(self) -> None:
        for one in self._cluster.held.pop(self._topic):
            self._cluster.feed(one)


# -- for the checkers -------------------------------------------------------------------------------------------------


class EveryTopic(taken_in.Sources):
    """The user's records, also those of deleted topics."""

    def __init__(self, reference: Reference, log: Broker, recording: object) -> None:
        self._reading = Reading(log)
        self._reading.look()
        self._stored = {past.id: past.stored for past in log.past}
        plan = self._reading.plan
        assert plan is not None
        self._topic_of = {task: source.topic for source in plan.sources for task in self._reading.tasks(source.topic)}
        for topic, found in log.describe(set(self._topic_of.values())).items():
            self._stored[found.id] = [log.stored(Partition(topic, index)) for index in range(found.partitions)]
        self._last: dict[str, str] = {}
        self._reference = reference

    def close(self) -> None:
        pass

    def take(self, task: str, cut: Cut) -> Taken:
        id = self._reading.read_from[task, cut.batch]
        if self._last.setdefault(task, id) != id:
            self._last[task] = id
            self._reference.begin_again(task)
        stored = self._stored[id]
        read = [stored[r.partition].read(r.start, r.stop - r.start) if r.stop > r.start else [] for r in cut.ranges]
        return Taken(cut, [taken_in.records_of(messages) for messages in read])


@contextmanager
def whole(broker: Broker, reference: Reference) -> Iterator[None]:
    """A replay finds the records of deleted topics, and the rows that were delivered to them."""
    if not broker.past:
        yield
        return
    for past in reversed(broker.past):
        if past.topic.startswith("out-"):
            broker.join(past)
    with mock.patch.object(replay, "Sources", partial(EveryTopic, reference)):
        yield
