"""The records named by a cut: rows in the order of the cut, dead letters, and the watermark after them.

Source: PROTOCOL 3 and 12. Workers, `try` and replays read cuts by these rules; they differ only in where they get the
records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import polars as pl

from holdfast.schemas.cuts import END_WATERMARK, Cut, Range
from holdfast.schemas.dead_letters import DeadLetter, Position, of_record
from holdfast.schemas.plans import SparkPlan
from holdfast.services.kernel.codecs.decoder import Decoded
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.codecs.frames import FrameCodec
from holdfast.services.kernel.codecs.marked import RowDecoder
from holdfast.services.kernel.codecs.metadata import Headers, Metadata
from holdfast.services.kernel.codecs.registered import NO_SCHEMAS, Schemas
from holdfast.services.kernel.dataflow.fed import Fed, RowPosition
from holdfast.services.kernel.dataflow.leaps import Leaps
from holdfast.services.kernel.dataflow.micro_batches import MicroBatch
from holdfast.services.kernel.dataflow.source_records import Keys, SourceDecoder
from holdfast.services.kernel.operators.operator import TIME
from holdfast.services.kernel.plans.layout import TaskLayout


class Brought(NamedTuple):
    """The share of a source task in a batch.

    fed: the rows and the watermark after them.
    dead: the dead letters of the records.
    records: the number of records read. A cut spans more offsets, because transaction markers take some.
    lost: the number of records that the cut names and Kafka no longer has.
    bytes: the approximate size of the records.
    taken_in: the number of records of the job's input that the rows come from; of a Spark operator, those that Spark
    has read.
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
    """The records of one range of a cut, in offset order.

    offsets: the offset of each record.
    values: the value of each record, None for a deletion.
    timestamps_ms: the timestamp of each record; negative: the record has none.
    keys: the keys of records without a value, by position.
    metadata_keys: the key of each record, if a column holds keys.
    headers: the headers of each record, if a column holds them.
    """

    offsets: Sequence[int]
    values: Sequence[bytes | None]
    timestamps_ms: Sequence[int]
    keys: Keys
    metadata_keys: Sequence[bytes | None] = ()
    headers: Sequence[Headers] = ()


NO_RECORDS = Records((), (), (), {})
"""The records of a lost range."""


@dataclass(slots=True)
class Read:
    """Decoded records of a user's topic.

    ranges: the ranges read, each with the newest event time of its partition up to its end.
    decoded: the rows and the refused records.
    offsets: for each range, the offsets of its records.
    values: the values of all records.
    bounds: for each range, the number of its first row; then the number of rows in total.
    """

    ranges: tuple[Range, ...]
    decoded: Decoded
    offsets: list[Sequence[int]]
    values: list[bytes | None]
    bounds: np.ndarray

    def position(self, index: int) -> tuple[int, int]:
        """The partition and offset of a record."""
        for one, offsets in zip(self.ranges, self.offsets, strict=True):
            if index < len(offsets):
                return one.partition, int(offsets[index])
            index -= len(offsets)
        raise IndexError(index)


class TopicCuts:
    """The cuts of a user's topic: a batch has exactly the records from start to stop of each range.

    A range with lost records counts as empty, even if a reader still holds some of its records: the reader passes
    NO_RECORDS.

    Args:
        task: a task with its share of the source.
        schemas: the schemas of the registry.
    """

    def __init__(self, task: TaskLayout, schemas: Schemas = NO_SCHEMAS) -> None:
        assert task.source is not None
        self._origin = task.operator.name
        self._topic = task.source.topic
        self._decoder = SourceDecoder(task.operator, schemas)

    def read(
        self,
        ranges: Sequence[Range],
        records: Sequence[Records],
        newest_us: Mapping[int, int | None],
        unknown: Collection[int] | None = None,
    ) -> Read:
        """Decodes the records of some ranges.

        Args:
            ranges: the ranges to read.
            records: the records of each range.
            newest_us: by partition, the newest event time before the range.
            unknown: the unknown schema ids of the cut that names the ranges; None: no cut names them yet.
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

    def leaps(self, read: Read, leaping: Leaps) -> None:
        """Passes the event times of a batch to `leaping`."""
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
    """The cuts of a Spark operator's commit log: a batch has the frames named by the valid commits in its range.

    Args:
        task: the task that reads the log.
        of_users: the users' topics that Spark reads; their records are counted only here.
    """

    def __init__(self, task: TaskLayout, of_users: Collection[str] = ()) -> None:
        self._of_users = of_users
        self._codec = FrameCodec(stream_schema(task.operator.fields))
        self.check = self._codec.check

    def bring(self, cut: Cut, found: Sequence[MicroBatch]) -> Brought:
        """Returns the share of the operator in the batch of the cut.

        found: the micro-batches after the last cut, in the order of the log.
        """
        (r,) = cut.ranges
        named = [one for one in found if one.offset < r.stop]
        rows = self._codec.decode([payload for one in named for payload in one.payloads])
        brought = _brought(cut, rows, [letter for one in named for letter in one.dead_in(cut.batch)], rows.height)
        counted = sum(one.commit.taken_of(self._of_users) for one in named)
        return brought._replace(taken_in=counted if self._of_users else rows.height)


class LaneCuts:
    """The cuts of rows that Spark writes in real-time mode: a batch has the valid rows of each lane, lane by lane."""

    def __init__(self, plan: SparkPlan) -> None:
        self._decoder = RowDecoder(plan)

    def bring(self, cut: Cut, rows_of: Callable[[Range], pl.DataFrame], lanes: Mapping[int, object]) -> Brought:
        """Returns the share of the lanes in the batch of the cut.

        rows_of: returns the valid rows in a range of one lane.
        """
        found = {r.partition: rows_of(r) for r in cut.ranges if r.partition in lanes}
        dead = [letter for lane, table in found.items() for letter in self._decoder.dead(lane, table, cut.batch)]
        tables = list(found.values())
        return _brought(cut, self._decoder.rows(tables), dead, sum(table.height for table in tables))


def _metadata(ranges: Sequence[Range], records: Sequence[Records], stamps: Sequence[int]) -> Metadata:
    """The metadata of the records of some ranges, in the order of the ranges."""
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
