"""Dead letters in the commit log for records that Spark reads itself and that are not rows.

Source: PROTOCOL 3 and 12. Only a micro-batch that has counted some searches for them, by reading its input again.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.schemas import dead_letters
from holdfast.schemas.commits import DEAD, Positions
from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.plans import SparkInput
from holdfast.services.kernel.codecs.decoder import Decoder
from holdfast.services.kernel.codecs.marked import UNREADABLE
from holdfast.services.log.kafka.client_settings import client_settings
from holdfast.services.spark.kafka_options import source_options
from holdfast.services.spark.records import unfit


def read(
    spark: SparkSession, given: SparkInput, origin: str, servers: str, start: Positions, stop: Positions
) -> list[bytes]:
    """A record of the commit log for each record of an input in [start, stop) that is not a row."""
    options = source_options(servers, given.topic, {}, client_settings())
    offsets = {"startingOffsets": start, "endingOffsets": stop}
    options |= {name: _offsets(given.topic, positions, stop) for name, positions in offsets.items()}
    del options["maxOffsetsPerTrigger"]
    return letters(given, origin, spark.read.format("kafka").options(**options).load())


def letters(given: SparkInput, origin: str, records: DataFrame) -> list[bytes]:
    """A record of the commit log for each of these records that is not a row. `origin` is used if the input has no
    source."""
    found = unfit(given, records)
    rows = found.select("partition", "offset", "value", "timestamp").orderBy("partition", "offset").toLocalIterator()
    decoder = Decoder(given.fields, "json", given.event_time or None, given.unit_of_time or None)
    return [DEAD + dead_letters.encode(_letter(given.source or origin, given.topic, row, decoder)) for row in rows]


def _offsets(topic: str, positions: Positions, stop: Positions) -> str:
    """The offsets of every partition; a new partition begins at its start."""
    return json.dumps({topic: {str(p): positions[topic].get(p, -2) for p in stop[topic]}})


def _letter(origin: str, topic: str, row: Any, decoder: Decoder) -> DeadLetter:
    """The dead letter of a record, with the reason that a source task would give."""
    raw = bytes(row["value"] or b"")
    refused = decoder.decode([raw if row["value"] is not None else None], [int(row["timestamp"].timestamp() * 1000)])
    reason = refused.refused[0][1] if refused.refused else UNREADABLE
    return dead_letters.of_record(origin, reason, 0, topic, row["partition"], row["offset"], raw)
