"""Two copies of one unit at work at the same time: both send, both checkpoint, and the results do not show it.

PROTOCOL 0.1, 4, 6, 7 and 9, on a log in memory. Two copies come about in two ways: an assignment gives a second one all
but `commit`, or a worker that no longer holds a unit has not read so yet: a zombie that cuts, checkpoints, commits and
trims beside its successor.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas import checkpoints, cuts, delivered
from holdfast.schemas.assignments import Flags
from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.cuts import Cut
from holdfast.schemas.frames import unpack
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.decisions.cuts import CutLog
from holdfast.services.decisions.shares import beginning
from holdfast.services.kernel.plans.layout import data_topics, readers
from holdfast.services.log.memory import MemoryAppender, MemoryLog
from holdfast.services.worker.core.lifecycle import State
from holdfast.services.worker.process.loop import Worker
from tests.support.examples import examples
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import Order, orders

JOB = """
name: orders
keep_cuts: true
batch_interval_ms: 5
fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: 100}}
sources:
  orders:
    topic: orders
    fields: {shop: string, item: string, amount: int, at: timestamp}
    event_time: at
    unit: ms
    parallelism: 2
operators:
  hours: {aggregate: {c: "count()", total: "sum(amount)"}, key: [item, shop], input: orders, window: {size_s: 3600},
    parallelism: 2}
  shops: {aggregate: {n: "sum(c)", most: "max(total)"}, key: [shop], input: hours, parallelism: 2}
queries:
  shops: {input: shops, sink: {topic: shops}}
"""
"""Only `shops` delivers as long as every record can be decoded: copies of the other units are never fenced."""

SECOND = Flags(commit=False)
HOT = Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True)


def check(cluster: MemoryCluster, fed: list[Order]) -> None:
    hours: Counter[tuple[str, str, int]] = Counter()
    for order in fed:
        hours[order["shop"], order["item"], order["at"] // 3_600_000] += order["amount"]
    most: dict[str, int] = defaultdict(int)
    for (shop, *_), total in hours.items():
        most[shop] = max(most[shop], total)
    number = Counter(order["shop"] for order in fed)
    newest = {row["shop"]: (row["n"], row["most"]) for row in cluster.rows("shops")}
    assert newest == {shop: (number[shop], most[shop]) for shop in number}
    for partition in range(len(cluster.plan.units)):
        where = Partition(cluster.topics.delivered, partition)
        batches = [delivered.decode(m.value() or b"").batch for m in cluster.log.scan(where)]
        assert batches == sorted(set(batches)), "each batch is delivered once"


class Checkpoints:
    """The checkpoint logs of all units, folded as far as they are written. markers, valid: by author."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._next = {unit.name: 0 for unit in cluster.plan.units}
        self.folds = {unit.name: CheckpointLog() for unit in cluster.plan.units}
        self.markers: Counter[str] = Counter()
        self.valid: Counter[str] = Counter()

    def read(self) -> None:
        for unit in self._cluster.plan.units:
            where = Partition(self._cluster.topics.checkpoints, unit.partition)
            for message in self._cluster.log.scan(where, self._next[unit.name]):
                self._next[unit.name] = message.offset() + 1
                self._fold(self.folds[unit.name], message.offset(), message.value() or b"")

    def _fold(self, fold: CheckpointLog, offset: int, value: bytes) -> None:
        record, before = checkpoints.decode(value), fold.last_id
        run = fold.read(offset, record)
        if isinstance(record, Marker):
            self.markers[record.id.author] += 1
        if run is not None:
            assert run.marker.prev == before, "valid runs make one chain"
            self.valid[run.marker.id.author] += 1


@contextmanager
def trims_checked(cluster: MemoryCluster) -> Iterator[Checkpoints]:
    """No DeleteRecords, from any copy, deletes what a reader or a restore may still need."""
    known, trim = Checkpoints(cluster), cluster.log.trim
    reading = readers(cluster.plan, cluster.topics)
    partitions = {Partition(cluster.topics.checkpoints, unit.partition): unit.name for unit in cluster.plan.units}

    def limit(partition: Partition) -> int:
        if partition in partitions:
            return known.folds[partitions[partition]].base or 0
        return min(needed(known.folds[unit].last, partition) for unit in reading[partition])

    def checked(upto: Mapping[Partition, int]) -> None:
        known.read()
        for partition, offset in upto.items():
            assert offset <= limit(partition), f"{partition} is trimmed to {offset}, needed from {limit(partition)}"
        trim(upto)

    with mock.patch.object(cluster.log, "trim", checked):
        yield known
    known.read()


def needed(marker: Marker | None, partition: Partition) -> int:
    """From where a reader with this last valid marker reads the partition."""
    positions = () if marker is None else marker.positions
    return next((p.offset for p in positions if (p.topic, p.partition) == (partition.topic, partition.index)), 0)


def copies_of_frames(cluster: MemoryCluster) -> int:
    """How many frames are in the log more than once; copies are equal (PROTOCOL 14.3)."""
    found: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for name, partitions in data_topics(cluster.plan).items():
        for index in range(partitions):
            for message in cluster.log.scan(Partition(name, index)):
                header = unpack(message.value() or b"")
                found[name, index, header.writer, header.batch, header.part].append(header.payload_hash)
    assert all(len(set(hashes)) == 1 for hashes in found.values())
    return sum(len(hashes) > 1 for hashes in found.values())


def cuts_by(cluster: MemoryCluster) -> tuple[Counter[str], Counter[str]]:
    """Proposals by author, and the valid ones; of each task the valid ones are batches 1, 2, 3, ..."""
    first = {f"orders-{index}": dict.fromkeys(owned, 0) for index, owned in enumerate(cluster.plan.sources[0].owners)}
    log, proposed, valid = CutLog(beginning(first)), Counter[str](), Counter[str]()
    last: Counter[str] = Counter()
    for message in cluster.log.scan(Partition(cluster.topics.cuts, 0)):
        record = cuts.decode(message.value() or b"")
        if isinstance(record, Cut):
            proposed[record.id.author] += 1
            if log.read(message.offset(), record):
                assert record.batch == last[record.task] + 1
                last[record.task] += 1
                valid[record.id.author] += 1
        else:
            log.read(message.offset(), record)
    return proposed, valid


class Underway(MemoryAppender):
    """Its records arrive a turn later, so that two workers can decide before either sees the other's decision."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self._underway: list[Callable[[], None]] = []

    def append(self, partition: Partition, value: bytes | None, **rest: Any) -> None:
        self._underway.append(partial(super().append, partition, value, **rest))

    def poll(self) -> None:
        underway, self._underway = self._underway, []
        for arrive in underway:
            arrive()
        super().poll()


def started(lead: int) -> tuple[MemoryCluster, Worker]:
    """A cluster in which one worker has run everything for a while; what workers append takes a turn to arrive."""
    cluster = MemoryCluster(JOB)
    cluster.log.appender = lambda name: Underway(cluster.log)  # type: ignore[method-assign]
    first = cluster.start("w1")
    cluster.place({unit: [first] for unit in cluster.units})
    cluster.turn(lead)
    return cluster, first


def load(cluster: MemoryCluster, fed: list[Order], turns: int) -> None:
    """Orders come, one to each partition, so many turns apart."""
    for start in range(0, len(fed), 2):
        cluster.feed("orders", fed[start : start + 1], 0)
        cluster.feed("orders", fed[start + 1 : start + 2], 1)
        cluster.turn(turns)


def deafen(cluster: MemoryCluster, worker: Worker) -> None:
    """From here on it does not read assignments; `listen` ends that."""
    worker._control.hold(worker, Partition(cluster.cluster.assignments, 0), True)


def listen(cluster: MemoryCluster, worker: Worker) -> None:
    worker._control.hold(worker, Partition(cluster.cluster.assignments, 0), False)


@examples(each_run=2, with_long=10)
@given(st.integers(0, 300), st.integers(0, 99))
def test_a_second_copy_with_all_but_commit_sends_the_same_frames_and_decides_nothing(lead: int, seed: int) -> None:
    fed = orders(400, seed)
    cluster, first = started(lead)
    with trims_checked(cluster) as known:
        load(cluster, fed[:100], 2)
        second = cluster.start("w2")
        cluster.place({unit: [first, (second, SECOND)] for unit in cluster.units})
        load(cluster, fed[100:300], 3)
        cluster.until(lambda: all(copy.state == "running" for copy in second.copies()))
        load(cluster, fed[300:], 3)
        assert copies_of_frames(cluster) > 20, "both sent"
        cluster.turn(300)
        third = cluster.start("w3")
        cluster.kill("w1")
        cluster.place({unit: [third, (second, SECOND)] for unit in cluster.units})
        cluster.run_to_end()
    check(cluster, fed)
    assert known.markers[second.identity.incarnation] == cuts_by(cluster)[0][second.identity.incarnation] == 0
    assert known.markers == known.valid, "there was one author at a time"


@examples(each_run=2, with_long=10)
@given(st.integers(0, 300), st.integers(0, 99))
def test_a_worker_that_has_not_read_that_it_was_replaced_may_do_all_it_did_before(lead: int, seed: int) -> None:
    """Both cut, send, checkpoint and trim: the log takes the first proposal; transactions only of the successor."""
    beside_its_successor(lead, orders(600, seed))


def test_only_one_of_two_checkpoints_at_once_is_valid() -> None:
    known, old, new = beside_its_successor(0, orders(600, 5))
    assert known.markers.total() > known.valid.total()
    assert known.valid[old]
    assert known.valid[new]


def beside_its_successor(lead: int, fed: list[Order]) -> tuple[Checkpoints, str, str]:
    """What was checkpointed, and the authors' names: the worker that was replaced, and its successor."""
    cluster, old = started(lead)
    with trims_checked(cluster) as known:
        load(cluster, fed[:100], 2)
        deafen(cluster, old)
        new = cluster.start("w2")
        cluster.place({unit: [new] for unit in cluster.units})
        known.read()
        before = known.markers[old.identity.incarnation]
        load(cluster, fed[100:500], 4)
        states = {copy.unit.split("/")[1]: copy.state for copy in old.copies()}
        assert {state for unit, state in states.items() if unit.startswith("shops")} == {"fenced"}
        assert {state for unit, state in states.items() if not unit.startswith("shops")} == {"running"}
        assert copies_of_frames(cluster) > 20, "both sent"
        listen(cluster, old)
        load(cluster, fed[500:], 2)
        assert old.copies() == (), "it gave up what it does not hold"
        known.read()
        third = cluster.start("w3")  # what both have checkpointed, one after the other, gives the state
        cluster.kill("w2")
        cluster.place({unit: [third] for unit in cluster.units})
        cluster.run_to_end()
    check(cluster, fed)
    proposed, valid = cuts_by(cluster)
    assert proposed.total() > valid.total(), "both cut"
    assert known.markers[old.identity.incarnation] > before, "both checkpointed"
    assert known.valid[new.identity.incarnation]
    return known, old.identity.incarnation, new.identity.incarnation


@examples(each_run=2, with_long=10)
@given(st.integers(20, 300), st.integers(1, 300), st.integers(0, 99))
def test_a_zombie_that_wakes_behind_has_its_proposals_refused_and_its_transactions_fenced(
    lead: int, asleep: int, seed: int
) -> None:
    """It slept while its successor continued: what it then proposes names a past that is no longer the last."""
    fed = orders(500, seed)
    cluster, old = started(lead)
    with trims_checked(cluster) as known:
        load(cluster, fed[:100], 2)
        deafen(cluster, old)
        frozen = cluster.workers.pop("w1")
        new = cluster.start("w2")
        cluster.place({unit: [new] for unit in cluster.units})
        load(cluster, fed[100:300], 2)
        cluster.until(lambda: all(copy.state == "running" for copy in new.copies()))
        cluster.turn(asleep)
        known.read()
        rows, chain = len(cluster.rows("shops")), known.valid[old.identity.incarnation]
        cluster.workers = {"w1": frozen}  # it alone, with all that it had in hand
        frozen.turn()
        assert len(cluster.rows("shops")) == rows, "not a row from what it had in hand"
        cluster.workers = {"w1": frozen, "w2": new}
        known.read()
        assert known.valid[old.identity.incarnation] == chain, "nor a checkpoint"
        load(cluster, fed[300:], 2)
        listen(cluster, old)
        cluster.turn(20)
        assert old.copies() == (), "it gave up what it does not hold"
        cluster.run_to_end()
    check(cluster, fed)


def test_a_fenced_copy_whose_inputs_are_trimmed_meanwhile_follows_again_and_leads_later() -> None:
    """Its reader says once that the position is gone. A copy that passes over that never reads its inputs again."""
    fed = orders(600, 5)
    cluster, old = started(0)
    with trims_checked(cluster):
        load(cluster, fed[:100], 2)
        deafen(cluster, old)
        new = cluster.start("w2")
        cluster.place({unit: [new, (old, HOT)] for unit in cluster.units})
        load(cluster, fed[100:200], 4)
        assert State.FENCED in states(old)
        frozen = cluster.workers.pop("w1")
        load(cluster, fed[200:400], 20)
        cluster.workers["w1"] = frozen
        cluster.turn(5)
        assert State.FENCED_LOST in states(old)
        listen(cluster, old)
        cluster.until(lambda: states(old) == {State.SUSPENDED})
        cluster.kill("w2")
        cluster.place({unit: [old] for unit in cluster.units})
        load(cluster, fed[400:], 2)
        cluster.run_to_end()
    check(cluster, fed)


def test_a_leader_whose_inputs_were_trimmed_reads_who_leads_before_it_fences_anybody() -> None:
    """It was cut off and replaced. Whoever rebuilds without a look into `assignments` fences its successor."""
    fed = orders(600, 5)
    cluster, old = started(0)
    with trims_checked(cluster):
        load(cluster, fed[:100], 2)
        deafen(cluster, old)
        frozen = cluster.workers.pop("w1")
        new = cluster.start("w2")
        cluster.place({unit: [new] for unit in cluster.units})
        load(cluster, fed[100:400], 20)
        cluster.workers["w1"] = frozen
        for _ in range(100):
            cluster.turn(1)
            assert State.RESTORING not in states(old)
            assert states(new) == {State.RUNNING}
        assert State.FENCED_LOST in states(old)
        listen(cluster, old)
        load(cluster, fed[400:], 2)
        cluster.run_to_end()
    check(cluster, fed)


def states(worker: Worker) -> set[State]:
    return {copy.core.state for copy in worker._copies.here.values()}
