"""A stranger's records on the job's own topics: bytes that mean nothing, torn records, and what cannot be true."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from holdfast.schemas import assignments, checkpoints, delivered, progress
from holdfast.schemas.assignments import Assignment, Change, split_unit_key
from holdfast.schemas.checkpoints import Anchor, Position
from holdfast.schemas.decided import Id
from holdfast.schemas.delivered import Delivered
from holdfast.schemas.frames import HEADER_BYTES
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.assigned import Assigned
from tests.simulation.kafka.broker import STRANGER
from tests.simulation.kafka.names import TOPICS, kind_of
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.jobs import NAME

LITTERED = ("cuts", "checkpoints", "data", "progress", "delivered")
AHEAD = 1_000_000
"""So many batches or records no history has."""


def write(cluster: Cluster, what: str, count: int) -> None:
    """what: a row of STRANGE, or a kind of topic for rubbish and torn records. count: chooses among what there is."""
    if cluster.broker.available:
        cluster.broker.author = STRANGER
        STRANGE.get(what, _litter)(cluster, what, count)


def _partitions(cluster: Cluster, kind: str) -> list[Partition]:
    """Partitions of every generation of the job, or of the cluster."""
    found = (w.partition for w in cluster.broker.written if kind_of(w.partition.topic) == kind)
    return [partition for partition in dict.fromkeys(found) if cluster.broker.find(partition) is not None]


def _put(cluster: Cluster, partition: Partition, value: bytes, key: bytes | None = None) -> None:
    cluster.broker.put(partition, value, key, None)


def _litter(cluster: Cluster, kind: str, count: int) -> None:
    """Bytes by chance, and the last record there, cut short."""
    random = Random(count)
    for partition in _partitions(cluster, kind):
        last = cluster.broker.last(partition)
        _put(cluster, partition, random.randbytes(random.choice((0, 1, 44, 200))))
        whole = b"" if last is None else last.value() or b""
        if len(whole) > HEADER_BYTES:
            _put(cluster, partition, whole[: random.randrange(HEADER_BYTES, len(whole))])


def _anchor(cluster: Cluster, what: str, count: int) -> None:
    for partition in _partitions(cluster, "checkpoints"):
        end = cluster.broker.offsets([partition], "end")[partition]
        upto = (max(end - count, 0), end + AHEAD)[count % 2]
        _put(cluster, partition, checkpoints.encode(Anchor(upto, Id(STRANGER, count), count)))


def _delivered(cluster: Cluster, what: str, count: int) -> None:
    for partition in _partitions(cluster, "delivered"):
        last = cluster.broker.last(partition)
        if last is not None and last.key():
            unit = (last.key() or b"").decode()
            _put(cluster, partition, delivered.encode(Delivered(unit, AHEAD + count, 1)), last.key())


def _progress(cluster: Cluster, what: str, count: int) -> None:
    data = tuple(Position(p.topic, p.index, AHEAD) for p in _partitions(cluster, "data"))
    for unit in cluster.job.units:
        for partition in _partitions(cluster, "progress"):
            _put(cluster, partition, progress.encode(Progress(unit, AHEAD, AHEAD, data)), unit.encode())


def _unplaced(cluster: Cluster, what: str, count: int) -> None:
    """A record without copies, for some units of the job, or all."""
    assigned = Assigned()
    for one in cluster.broker.written:
        if one.partition.topic == TOPICS.assignments:
            assigned.read(assignments.decode(one.value))
    placed = [c for unit, c in sorted(assigned.units().items()) if c.copies and split_unit_key(unit)[0] == NAME]
    changes = tuple(Change(change.unit, change.epoch + 1, reason="a mistake") for change in placed[: count or None])
    if changes:
        _put(cluster, Partition(TOPICS.assignments, 0), assignments.encode(Assignment(STRANGER, 0, changes)))


STRANGE: Mapping[str, Callable[[Cluster, str, int], None]] = {
    "anchor": _anchor,
    "position": _delivered,
    "told": _progress,
    "unplaced": _unplaced,
}
WRITES = (*LITTERED, *STRANGE, *STRANGE)
