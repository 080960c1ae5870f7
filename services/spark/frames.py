"""The code that runs in Spark's tasks: it writes rows as frames to the commit log's partition and returns their
offsets.

Source: PROTOCOL 12. A frame is valid only if a valid commit names its offset, so a repeated task does no harm.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from holdfast.schemas import formats
from holdfast.schemas.commits import Named
from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.frames import HEADER_BYTES
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.codecs.fields import TIME, stream_schema
from holdfast.services.kernel.codecs.frames import FrameCodec, Sender
from holdfast.services.kernel.errors import Retriable
from holdfast.services.kernel.plurals import plural
from holdfast.services.log.door import open_log
from holdfast.services.log.protocol import Appender, Delivered
from holdfast.services.log.seal.sealed import SealedLog
from holdfast.services.log.seal.secret import HOW, SecretUnusable, keyring

WRITTEN = "offset long, rows long"
FLUSH_S = 60.0


def _has_secret() -> bool:
    return keyring() is not None


@dataclass(frozen=True, slots=True)
class FrameTask:
    """Writes the rows of one task of micro-batch k.

    Attributes:
        time_us: time of rows without an event time.
        rehearsed: True to write nothing.
        sealed: True if the driver, which creates this object, has a secret; the task's process then needs it, too.
    """

    bootstrap_servers: str
    topic: str
    fields: dict[str, str]
    generation: int
    epoch: int
    k: int
    attempt: int
    time_us: int
    rehearsed: bool = False
    sealed: bool = field(default_factory=_has_secret)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Takes batches with the stream's columns and event time. Yields the columns of WRITTEN, with a row for each
        frame."""
        written = self._written(frame for batch in batches if batch.num_rows for frame in self._frames(batch))
        if written:
            yield pa.RecordBatch.from_pydict(
                {
                    "offset": [one.offset for one in written],
                    "rows": [one.rows for one in written],
                },
                schema=pa.schema([(name, pa.int64()) for name in ("offset", "rows")]),
            )

    def _frames(self, batch: pa.RecordBatch) -> list[Frame]:
        rows = pl.DataFrame(batch)  # by the C interface: a quarter of from_arrow's time
        return frames_of(rows, self.fields, (self.generation, self.epoch, self.k), self.time_us)

    def _written(self, frames: Iterable[Frame]) -> list[Named]:
        """Writes frames while the next ones are made, and waits for Kafka once, behind the last one."""
        key, rows, offsets = f"{self.epoch}/{self.k}/{self.attempt}".encode(), list[int](), dict[int, int]()
        appender: Appender | None = None
        for frame in frames:
            appender = appender or _appender(self.bootstrap_servers, _prefix(self.topic), self.sealed)
            if not self.rehearsed:
                appender.append(Partition(self.topic, 0), frame.data, key=key, done=_noting(offsets, len(rows)))
                rows.append(frame.rows)
            appender.poll()
        if appender is not None:
            appender.flush(FLUSH_S)
        if len(offsets) < len(rows):
            raise Retriable(f"{plural(len(rows) - len(offsets), 'frame')} of micro-batch {self.k} not acknowledged")
        return [Named(offsets[index], count) for index, count in enumerate(rows)]


def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the batches. A process that runs it has loaded this module."""
    yield from batches


class Frame(NamedTuple):
    """A frame, and its number of rows."""

    data: bytes
    rows: int


def frames_of(rows: pl.DataFrame, fields: dict[str, str], of: tuple[int, int, int], time_us: int) -> list[Frame]:
    """The rows of a micro-batch as frames.

    Args:
        rows: the stream's columns and event time.
        fields: types of the columns.
        of: generation, epoch and number of the micro-batch.
        time_us: time of rows without an event time.
    """
    generation, epoch, k = of
    schema = stream_schema(fields)
    codec, sender = FrameCodec(schema), Sender(0, generation, epoch, formats.written(formats.FIRST))
    frames = codec.encode(rows.with_columns(pl.col(TIME).fill_null(time_us)).cast(schema), sender, k, NO_WATERMARK)
    heights = [rows.height] if len(frames) == 1 else [_height(codec, frame) for frame in frames]
    return [Frame(frame, height) for frame, height in zip(frames, heights, strict=True)]


def _noting(offsets: dict[int, int], index: int) -> Delivered:
    def done(error: Exception | None, offset: int) -> None:
        if error is None:
            offsets[index] = offset

    return done


def _height(codec: FrameCodec, frame: bytes) -> int:
    return codec.decode([memoryview(frame)[HEADER_BYTES:]]).height


def _prefix(topic: str) -> str:
    """The prefix of the cluster in a topic's name: the part before the first dot."""
    return topic.partition(".")[0]


@functools.lru_cache(maxsize=4)
def _appender(bootstrap_servers: str, prefix: str, sealed: bool) -> Appender:
    """The appender of a Python process of Spark, which outlives its tasks."""
    log = open_log(bootstrap_servers, prefix, "spark-task")
    if sealed and not isinstance(log, SealedLog):
        raise SecretUnusable(f"Spark's executors have no secret: {HOW}")
    return log.appender("frames")
