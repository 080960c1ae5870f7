"""The inputs of a unit from other units: the frames of its input partitions, and the task slots that they feed.

Source: PROTOCOL 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from types import MappingProxyType

from holdfast.schemas.checkpoints import Marker, Position
from holdfast.schemas.topics import Partition
from holdfast.schemas.topics import edge as edge_of
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.codecs.frames import FrameCodec
from holdfast.services.kernel.dataflow.fed import Fed
from holdfast.services.kernel.dataflow.input_partition import InputPartition, Merged
from holdfast.services.kernel.plans.layout import RemoteInput, UnitLayout


class Inputs:
    """The frames of one copy, from a marker on.

    Args:
        layout: the unit as planned.
        generation: the generation number in its frames.
        marker: the marker to start from; None: the beginning.
        refuse: called for each record that is not a frame.
        gaps: by partition name, the offset up to which frames are lost.
        strict: two different frames of one batch stop the copy; otherwise the first frame counts.
        begins: the begin offsets of partitions, for a copy that goes back to a marker before the trimmed part.
        void: a test of partition, writer number and epoch; see InputPartition.

    edges: by name of an edge from another unit, a task and its slot that the edge feeds; an edge may feed several.
    """

    def __init__(
        self,
        layout: UnitLayout,
        generation: int,
        marker: Marker | None,
        refuse: Callable[[Partition, int, str], None],
        gaps: Mapping[str, int] | None = None,
        strict: bool = True,
        begins: Mapping[Partition, int] = MappingProxyType({}),
        void: Callable[[Partition, int, int], bool] = lambda *_: False,
    ) -> None:
        known = {} if marker is None else {Partition(p.topic, p.partition): p for p in marker.positions}
        batch = 0 if marker is None else marker.b
        self._partitions: dict[Partition, InputPartition] = {}
        self._codecs: dict[Partition, FrameCodec] = {}
        self._slots: dict[Partition, list[tuple[str, int]]] = {}
        self.edges: dict[str, tuple[str, int]] = {}
        for task in layout.tasks:
            for slot, source in enumerate(task.inputs):
                if not isinstance(source, RemoteInput):
                    continue
                partition = source.partition
                self._slots.setdefault(partition, []).append((task.name, slot))
                self.edges.setdefault(edge_of(partition.topic), (task.name, slot))
                if partition not in self._partitions:
                    at = known.get(partition) or Position(partition.topic, partition.index, 0)
                    codec = self._codecs[partition] = FrameCodec(stream_schema(task.input_fields[slot]))
                    self._partitions[partition] = InputPartition(
                        str(partition),
                        source.writers,
                        generation,
                        batch,
                        offset=max(at.offset, begins.get(partition, 0)),
                        ended=at.ended,
                        refuse=partial(refuse, partition),
                        fits=codec.check,
                        gap=(gaps or {}).get(str(partition), -1),
                        strict=strict,
                        void=partial(void, partition),
                    )

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._partitions

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions)

    def offer(self, partition: Partition, frames: Iterable[tuple[int, bytes]], batch: int) -> bool:
        """Takes frames of one partition, each with its offset.

        Returns True if the partition has all its frames of the batch.
        """
        source = self._partitions[partition]
        for offset, frame in frames:
            source.offer(offset, frame)
        return source.ready(batch)

    def ready(self, batch: int) -> bool:
        for partition in self._partitions.values():  # noqa: SIM110 (a generator would take twice as long)
            if not partition.ready(batch):
                return False
        return True

    def take(self, batch: int) -> dict[tuple[str, int], Fed]:
        """Returns the rows of a ready batch by task and slot, and drops the batch."""
        return self._fed((name, one.take(batch)) for name, one in self._partitions.items())

    def held(self, batch: int) -> dict[tuple[str, int], Fed]:
        """Returns the rows of a ready batch by task and slot, and keeps the batch."""
        return self._fed((name, one.held(batch)) for name, one in self._partitions.items())

    def _fed(self, found: Iterable[tuple[Partition, Merged]], newest: int | None = None) -> dict[tuple[str, int], Fed]:
        """Returns rows by task and slot.

        newest: the watermark for a partition without a writer in the batch; None: its own watermark.
        """
        fed: dict[tuple[str, int], Fed] = {}
        for name, merged in found:
            at = merged.watermark if merged.writers or newest is None else newest
            rows = self._codecs[name].decode(merged.payloads)
            fed |= dict.fromkeys(self._slots[name], Fed(rows, at, merged.bytes, clock_us=merged.clock_us))
        return fed

    # -- a line of tentative batches ----------------------------------------------------------------------------------

    def begin_line(self, batch: int) -> None:
        for partition in self._partitions.values():
            partition.begin_line(batch)

    def end_line(self) -> None:
        for partition in self._partitions.values():
            partition.end_line()

    def passed(self, batch: int) -> None:
        for partition in self._partitions.values():
            partition.passed(batch)

    def following(self, batch: int, absent: Mapping[Partition, Set[int]]) -> int | None:
        """The next batch that the line can process; None if a frame is still awaited or no frame is here.

        absent: by partition, the writers for which the line does not wait.
        """
        found, there = batch, False
        for name, partition in self._partitions.items():
            first = partition.following(batch, absent.get(name, frozenset()))
            if first is not None:
                found, there = max(found, first), True
            elif not partition.silenced(absent.get(name, frozenset())):
                return None
        return found if there and self._is_there(found, absent) else None

    def _is_there(self, batch: int, absent: Mapping[Partition, Set[int]]) -> bool:
        found = [one.peek(batch, absent.get(name, frozenset())) for name, one in self._partitions.items()]
        return all(one is not None for one in found) and any(one is not None and one.writers for one in found)

    def peek(self, batch: int, absent: Mapping[Partition, Set[int]]) -> dict[tuple[str, int], Fed]:
        """Returns the rows of a batch named by `following` by task and slot, for the line; the stable cursor keeps the
        batch.

        An input without a writer in the batch does not hold the watermark back.
        """
        found = {name: one.peek(batch, absent.get(name, frozenset())) for name, one in self._partitions.items()}
        newest = max(one.watermark for one in found.values() if one is not None and one.writers)
        there = {name: one for name, one in found.items() if one is not None}
        assert there.keys() == found.keys(), f"{found.keys() - there.keys()}: batch {batch} is not here"
        return self._fed(there.items(), newest)

    def skip(self, marker: Marker) -> None:
        """Continues after a batch that another copy has processed."""
        for at in marker.positions:
            self._partitions[Partition(at.topic, at.partition)].skip(marker.b, at.offset, at.ended)

    def forget_hashes(self, batch: int) -> None:
        for partition in self._partitions.values():
            partition.forget_hashes(batch)

    def offsets(self) -> dict[Partition, int]:
        """The offset from which to read each partition."""
        return {name: partition.position() for name, partition in self._partitions.items()}

    def positions(self) -> list[Position]:
        """The positions after the last batch taken, for a marker."""
        return [Position(p.topic, p.index, one.position(), one.ended) for p, one in self._partitions.items()]

    def seen(self) -> dict[Partition, dict[int, int]]:
        """The highest epoch among the frames received, by partition and writer."""
        return {name: partition.seen() for name, partition in self._partitions.items()}

    def rewind(self) -> dict[Partition, int]:
        """The offsets from which to read partitions again, because frames were dropped for lack of room."""
        found = ((name, partition.rewind()) for name, partition in self._partitions.items())
        return {name: offset for name, offset in found if offset is not None}

    def ahead(self, partition: Partition) -> int:
        """The number of complete batches of the partition that wait for another partition."""
        return self._partitions[partition].ahead

    def kept_bytes(self) -> Iterator[tuple[Partition, int]]:
        """Yields the size of the waiting frames in bytes, by partition."""
        return ((name, partition.bytes) for name, partition in self._partitions.items())

    @property
    def missing(self) -> str:
        """The frames that Kafka has lost and that their writers must send again, as text; empty if there are none."""
        return "; ".join(filter(None, (partition.missing for partition in self._partitions.values())))

    @property
    def ending(self) -> bool:
        """True if the end of a writer has arrived or is already processed."""
        return any(partition.ending for partition in self._partitions.values())

    def waits_for(self, partition: Partition, batch: int) -> bool:
        """True if the batch waits for this partition."""
        return not self._partitions[partition].ready(batch)
