"""Results of the records that a cut names: rows in the order of the cut, dead letters, and the watermark behind them.

Source: PROTOCOL 3 and 12. Workers, `try` and replays read cuts by these rules; they differ in where they get the
records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from holdfast.schemas.cuts import END_WATERMARK, Cut, Range
from holdfast.schemas.dead_letters import DeadLetter, Position, of_record
from holdfast.schemas.plans import SparkPlan
from holdfast.services.kernel.codecs.decoding import Decoded
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.codecs.frames import FrameCodec
from holdfast.services.kernel.codecs.marked import RowDecoder
from holdfast.services.kernel.codecs.metadata import Headers, Metadata
from holdfast.services.kernel.codecs.registered import NO_SCHEMAS, Schemas
from holdfast.services.kernel.dataflow.fed import Fed, RowPosition
from holdfast.services.kernel.dataflow.leaping import Leaping
from holdfast.services.kernel.dataflow.micro_batches import MicroBatch
from holdfast.services.kernel.dataflow.source_records import Keys, SourceDecoder
from holdfast.services.kernel.operators.operator import TIME
from holdfast.services.kernel.plans.layout import TaskLayout


class Brought(NamedTuple):
    """Rows that a source task brings to a batch.

    records: how many there were; they are counted, since a cut spans more offsets: markers of transactions hold some.
    lost: how many the cut names that are gone.
    bytes: about.
    taken_in: of the job's input, so many stand behind them: of what Spark puts out, those that it has read.
    """

    fed: Fed
    dead: list[DeadLetter]
    records: int
    lost: int
    bytes: int = 0
    taken_in: int = 0


def _brought(
    cut: Cut, rows: pl.DataFrame, dead: list[DeadLetter], records: int, position: RowPosition | None = None
) -> Brought:
    watermark = END_WATERMARK if cut.final else cut.watermark
    fed = Fed(rows, watermark, position=position, clock_us=cut.time_ms * 1000)
    return Brought(fed, dead, records, sum(r.lost for r in cut.ranges), taken_in=records)


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one range of a cut, in offset order. timestamps_ms: negative = none.

    keys: of records without a value, by position. metadata_keys, headers: of each record, where a column holds them.
    """

    offsets: Sequence[int]
    values: Sequence[bytes | None]
    timestamps_ms: Sequence[int]
    keys: Keys
    metadata_keys: Sequence[bytes | None] = ()
    headers: Sequence[Headers] = ()


NO_RECORDS = Records((), (), (), {})
"""Records of a range that is lost."""


@dataclass(slots=True)
class Read:
    """Records of a user's topic, decoded. ranges: theirs, each with the newest event time of its partition up to there.

    offsets: of the records of each range; bounds: where its rows begin, and where the last range's end.
    """

    ranges: tuple[Range, ...]
    decoded: Decoded
    offsets: list[Sequence[int]]
    values: list[bytes | None]
    bounds: np.ndarray

    def position(self, index: int) -> tuple[int, int]:
        """Partition and offset of a record."""
        for one, offsets in zip(self.ranges, self.offsets, strict=True):
            if index < len(offsets):
                return one.partition, int(offsets[index])
            index -= len(offsets)
        raise IndexError(index)


class TopicCuts:
    """Cuts of a user's topic: the records of a batch are those from start to stop of every range, and no others.

    Of a range with lost records there are none, whoever may still hold some: the reader of its cut gives NO_RECORDS.

    Args:
        task: with its source share. params: of the source, from the job file. schemas: of the registry.
    """

    def __init__(self, task: TaskLayout, params: Mapping[str, Any], schemas: Schemas = NO_SCHEMAS) -> None:
        assert task.source is not None
        self._origin, self._topic = task.operator.name, task.source.topic
        self._decoder = SourceDecoder(task.operator, params, schemas)

    def read(
        self,
        ranges: Sequence[Range],
        records: Sequence[Records],
        newest_us: Mapping[int, int | None],
        unknown: Collection[int] | None = None,
    ) -> Read:
        """Decodes the records of some ranges.

        Args:
            newest_us: the newest event time before them, by partition.
            unknown: of the cut that names them; None: of ranges that no cut names yet.
        """
        values = list(chain.from_iterable(some.values for some in records))
        stamps = list(chain.from_iterable(some.timestamps_ms for some in records))
        bounds = np.cumsum([0, *(len(some.values) for some in records)])
        keys = {
            int(first) + at: key
            for first, some in zip(bounds, records, strict=False)
            if some.keys
            for at, key in some.keys.items()
        }
        metadata = None if self._decoder.about is None else _metadata(ranges, records, stamps)
        decoded = self._decoder.decode(values, stamps, keys, unknown, metadata)
        times = decoded.rows[TIME].to_numpy()
        at = np.searchsorted(decoded.kept, bounds)
        read = tuple(
            Range(
                r.partition, r.start, r.stop, _newest(newest_us.get(r.partition), times[at[i] : at[i + 1]]), lost=r.lost
            )
            for i, r in enumerate(ranges)
        )
        return Read(read, decoded, [some.offsets for some in records], values, bounds=at)

    def leaps(self, read: Read, leaping: Leaping) -> None:
        """Shows the event times of a batch."""
        times, kept = read.decoded.rows[TIME].to_numpy(), read.decoded.kept
        for one, start, stop in zip(read.ranges, read.bounds[:-1], read.bounds[1:], strict=True):
            offset: Callable[[int], int] = lambda row, start=start: read.position(int(kept[start + row]))[1]  # type: ignore[misc]  # noqa: E731
            leaping.take(one.partition, times[start:stop], offset)

    def bring(self, cut: Cut, read: Read) -> Brought:
        dead = [
            of_record(self._origin, reason, cut.batch, self._topic, *read.position(index), read.values[index] or b"")
            for index, reason in read.decoded.refused
        ]
        position: RowPosition = lambda row: Position(  # noqa: E731
            self._topic, *read.position(int(read.decoded.kept[row]))
        )
        return _brought(cut, read.decoded.rows, dead, len(read.values), position)


class CommitCuts:
    """Cuts of a Spark operator's commit log: a batch is what the valid commits within the range name.

    Args:
        of_users: topics of users that Spark reads, so the records that it took in are counted here and nowhere else.
    """

    def __init__(self, task: TaskLayout, of_users: Collection[str] = ()) -> None:
        self._of_users = of_users
        self._codec = FrameCodec(stream_schema(task.operator.fields))
        self.check = self._codec.check

    def bring(self, cut: Cut, found: Sequence[MicroBatch]) -> Brought:
        """found: the micro-batches behind the last cut, in the order of the log."""
        (r,) = cut.ranges
        named = [one for one in found if one.offset < r.stop]
        rows = self._codec.decode([payload for one in named for payload in one.payloads])
        brought = _brought(cut, rows, [letter for one in named for letter in one.dead_in(cut.batch)], rows.height)
        counted = sum(one.commit.taken_of(self._of_users) for one in named)
        return brought._replace(taken_in=counted if self._of_users else rows.height)


class LaneCuts:
    """Cuts of what Spark writes in real-time mode: a batch is the rows that count of every lane, lane by lane."""

    def __init__(self, plan: SparkPlan) -> None:
        self._decoder = RowDecoder(plan)

    def bring(self, cut: Cut, rows_of: Callable[[Range], pl.DataFrame], lanes: Mapping[int, object]) -> Brought:
        """rows_of: the rows that count in a range of one of the lanes."""
        found = {r.partition: rows_of(r) for r in cut.ranges if r.partition in lanes}
        dead = [letter for lane, table in found.items() for letter in self._decoder.dead(lane, table, cut.batch)]
        tables = list(found.values())
        return _brought(cut, self._decoder.rows(tables), dead, sum(table.height for table in tables))


def _metadata(ranges: Sequence[Range], records: Sequence[Records], stamps: Sequence[int]) -> Metadata:
    """Metadata of the records of some ranges, one range behind the other."""
    partitions = np.repeat([r.partition for r in ranges], [len(some.values) for some in records])
    offsets = list(chain.from_iterable(some.offsets for some in records))
    return Metadata(
        partitions.astype(np.int64),
        np.asarray(offsets, dtype=np.int64),
        np.asarray(stamps, dtype=np.int64),
        list(chain.from_iterable(some.metadata_keys for some in records)),
        headers=list(chain.from_iterable(some.headers for some in records)),
    )


def _newest(before: int | None, times: np.ndarray) -> int | None:
    if len(times) == 0:
        return before
    newest = int(times.max())
    return newest if before is None else max(before, newest)
