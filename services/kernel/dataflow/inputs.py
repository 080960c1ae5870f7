"""Inputs of a unit from other units: the frames of its input partitions, and the slots of its tasks they go to.

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
from holdfast.services.kernel.dataflow.merging import InputPartition, Merged
from holdfast.services.kernel.plans.layout import RemoteInput, UnitLayout


class Inputs:
    """The frames of one copy, from a marker on.

    Args:
        layout: of the unit. generation: the number in its frames. marker: None: from the beginning.
        refuse: called with what is no frame. gaps: by partition's name, the offset up to which frames are lost.
        strict: two different frames of one batch stop the copy; else the first one counts.
        begins: where partitions begin, of a copy that goes back behind what was trimmed. void: of a partition, a writer
            number and an epoch: see InputPartition.

    edges: from other units, by name, each with a slot of a task that it feeds; it may feed several.
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

        True if all that this partition has to bring for the batch is here.
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
        """Hands out a batch that is ready, by task and slot."""
        return self._fed((name, one.take(batch)) for name, one in self._partitions.items())

    def held(self, batch: int) -> dict[tuple[str, int], Fed]:
        """The rows of a batch that is ready, by task and slot; it stays here."""
        return self._fed((name, one.held(batch)) for name, one in self._partitions.items())

    def _fed(self, found: Iterable[tuple[Partition, Merged]], newest: int | None = None) -> dict[tuple[str, int], Fed]:
        """Rows by task and slot. newest: watermark of a partition to which no writer brings anything; None: its own."""
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
        """The next batch that the line may have; None: something is waited for, or nothing is here.

        absent: by partition, the writers that nobody waits for.
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
        """Rows of a batch that `following` has named, for the line, by task and slot; the stable cursor keeps them.

        An input that brings nothing holds no watermark back either.
        """
        found = {name: one.peek(batch, absent.get(name, frozenset())) for name, one in self._partitions.items()}
        newest = max(one.watermark for one in found.values() if one is not None and one.writers)
        there = {name: one for name, one in found.items() if one is not None}
        assert there.keys() == found.keys(), f"{found.keys() - there.keys()}: batch {batch} is not here"
        return self._fed(there.items(), newest)

    def skip(self, marker: Marker) -> None:
        """Continues behind a batch that another copy has done."""
        for at in marker.positions:
            self._partitions[Partition(at.topic, at.partition)].skip(marker.b, at.offset, at.ended)

    def forget_hashes(self, batch: int) -> None:
        for partition in self._partitions.values():
            partition.forget_hashes(batch)

    def offsets(self) -> dict[Partition, int]:
        """From where to read each partition."""
        return {name: partition.position() for name, partition in self._partitions.items()}

    def positions(self) -> list[Position]:
        """For a marker: after the last batch taken."""
        return [Position(p.topic, p.index, one.position(), one.ended) for p, one in self._partitions.items()]

    def seen(self) -> dict[Partition, dict[int, int]]:
        """By partition and writer, the highest epoch under which frames were sent that came here."""
        return {name: partition.seen() for name, partition in self._partitions.items()}

    def rewind(self) -> dict[Partition, int]:
        """From where to read partitions again of which frames were dropped, for want of room."""
        found = ((name, partition.rewind()) for name, partition in self._partitions.items())
        return {name: offset for name, offset in found if offset is not None}

    def ahead(self, partition: Partition) -> int:
        """Batches of which all is here, and that wait for another partition."""
        return self._partitions[partition].ahead

    def kept_bytes(self) -> Iterator[tuple[Partition, int]]:
        """Bytes of the frames that wait, by partition."""
        return ((name, partition.bytes) for name, partition in self._partitions.items())

    @property
    def missing(self) -> str:
        """Frames that Kafka has lost, and whose writers have yet to send them again; empty if there are none."""
        return "; ".join(filter(None, (partition.missing for partition in self._partitions.values())))

    @property
    def ending(self) -> bool:
        """The end of a writer is here, or done."""
        return any(partition.ending for partition in self._partitions.values())

    def waits_for(self, partition: Partition, batch: int) -> bool:
        """True if it is this partition that the batch lacks."""
        return not self._partitions[partition].ready(batch)
