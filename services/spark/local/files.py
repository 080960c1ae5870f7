"""The log in memory as files that Spark reads as a stream; each file holds the records that have come since the one
before.

Spark reads one file for each micro-batch, so a micro-batch ends where its file ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.schemas.commits import Positions
from holdfast.schemas.plans import SparkInput
from holdfast.schemas.topics import Partition
from holdfast.services.log.protocol import Log, Message

RECORDS = (
    "topic string, partition int, offset long, timestamp timestamp, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
"""Columns of Spark's Kafka source that a query reads."""
_SCHEMA = {
    "topic": pl.String(),
    "partition": pl.Int32(),
    "offset": pl.Int64(),
    "timestamp": pl.Datetime("us", "UTC"),
    "value": pl.Binary(),
    "headers": pl.List(pl.Struct({"key": pl.String(), "value": pl.Binary()})),
}


class TopicFiles:
    """Files of some topics.

    Args:
        first: offsets at which the first file begins.
    """

    def __init__(self, log: Log, folder: Path, first: Mapping[str, Mapping[int, int]]) -> None:
        self._log = log
        self._folder = folder
        self._ends: list[Positions] = []
        self._first: Positions = {topic: dict(offsets) for topic, offsets in first.items()}
        folder.mkdir(parents=True)

    def __len__(self) -> int:
        return len(self._ends)

    def end(self, file: int) -> Positions:
        """Offsets behind a file; file -1 is before the first one."""
        return self._ends[file] if file >= 0 else self._first

    def take(self) -> bool:
        """Writes new records to a new file. False if there are none."""
        ends = {topic: dict(offsets) for topic, offsets in self.end(len(self) - 1).items()}
        columns: dict[str, list[object]] = {name: [] for name in _SCHEMA}
        counts = self._log.topics()
        for topic, offsets in ends.items():
            for index in range(counts[topic]):
                for message in self._log.scan(Partition(topic, index), offsets.get(index, 0)):
                    _add(columns, Partition(topic, index), message)
                    offsets[index] = message.offset() + 1
        if not columns["offset"]:
            return False
        hidden = self._folder / f".{len(self)}"
        pl.DataFrame(columns, schema=_SCHEMA).write_parquet(hidden, compression="uncompressed")
        hidden.rename(self._path(len(self)))
        self._ends.append(ends)
        return True

    def stream(self, spark: SparkSession) -> DataFrame:
        """A stream of all files, including later ones."""
        return spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", 1).parquet(str(self._folder))

    def read(self, spark: SparkSession, file: int) -> DataFrame:
        """The records of one file."""
        return spark.read.schema(RECORDS).parquet(str(self._path(file)))

    def _path(self, file: int) -> Path:
        return self._folder / f"{file:06}.parquet"


def of_topic(records: DataFrame, given: SparkInput) -> DataFrame:
    """The records of an input. All inputs come from one stream, so that a micro-batch holds a complete file."""
    return records.filter(F.col("topic") == given.topic)


def _add(columns: dict[str, list[object]], partition: Partition, message: Message) -> None:
    columns["topic"].append(partition.topic)
    columns["partition"].append(partition.index)
    columns["offset"].append(message.offset())
    columns["timestamp"].append(datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC))
    columns["value"].append(message.value())
    columns["headers"].append([{"key": key, "value": value} for key, value in message.headers() or ()])
