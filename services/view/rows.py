"""Committed rows of a query and dead letters of a job; finds the newest without reading all."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.dead_letters import decode as decode_dead
from holdfast.schemas.delivered import NO_ROW
from holdfast.schemas.operator_settings import FilterSettings
from holdfast.schemas.plans import OperatorPlan, Plan
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.log.protocol import Log, Message
from holdfast.services.planning.several_sinks import checked, names
from holdfast.services.view.door import Door

STRETCH = 500
"""Number of offsets before the end of a partition that are read for the newest records."""


def sink_of(plan: Plan, query: str) -> OperatorPlan:
    """The only sink of a query. Raises CommandFailed if the job does not have the query, or it has several topics."""
    found = sinks_of(plan, query)
    if len(found) > 1:
        named = ", ".join(one.sink.query for one in found)
        raise CommandFailed(f"query '{query}' has several topics", f"name one: {named}", USAGE)
    return found[0]


def sinks_of(plan: Plan, query: str) -> list[OperatorPlan]:
    """The sink of a query, or those of all its topics. Raises CommandFailed if the job does not have the query."""
    sinks = {one.sink.query: one for one in plan.operators if one.sink.query}
    if query in sinks:
        return [sinks[query]]
    told = [one.settings for one in plan.operators if one.name == checked(query)]
    several = [topic for one in told if isinstance(one, FilterSettings) for topic in one.one_of or ()]
    found = [sinks[one] for one in names(query, several).values() if one in sinks]
    if not found:
        raise CommandFailed(f"job {plan.job} has no query '{query}'", suggest(query, sinks), USAGE)
    return found


def rows_of(sink: OperatorPlan, value: bytes | None) -> Sequence[bytes]:
    """A record's rows as JSON; null for a record of another format than the query's."""
    if value is None or sink.sink.format == "json":
        return [value or NO_ROW]
    from holdfast.services.kernel.codecs.arrow_records import UnfitRecord
    from holdfast.services.kernel.codecs.protobuf_schemas import NoSchema
    from holdfast.services.kernel.dataflow.sink_records import json_rows

    try:
        return json_rows(sink)(value)
    except UnfitRecord:
        return [NO_ROW]
    except NoSchema as error:
        raise CommandFailed(f"rows of format protobuf cannot be shown: a schema {error}", "") from None


def with_meta(row: bytes, partition: int, message: Message) -> dict[str, Any]:
    """A row as `holdfast results --meta` prints it."""
    headers: dict[str, Any] = dict(message.headers() or ())
    batch = headers.get("batch", b"").decode(errors="replace")
    return {
        "row": msgspec.Raw(row),
        "batch": int(batch) if batch.isdigit() else None,
        "status": headers.get("status", b"final").decode(errors="replace"),
        "partition": partition,
        "offset": message.offset(),
        "timestamp_ms": message.timestamp()[1],
    }


def newest_rows(door: Door, plan: Plan, query: str, most: int) -> list[dict[str, Any]]:
    """The newest rows of a query, newest first, each as `holdfast results --meta` prints it.

    Raises CommandFailed if there is no such query, or its topic is deleted.
    """
    from holdfast.services.kernel.dataflow.sink_records import RowsOf

    sink = sink_of(plan, query)
    if sink.elsewhere:
        raise CommandFailed(f"query {query} writes no topic: its rows are in {sink.elsewhere}")
    topic, ours = sink.sink.topic, RowsOf(plan.job, plan.generation, query)
    found = [
        (message.timestamp()[1], message.offset(), with_meta(row, partition, message))
        for partition, message in _newest(door.log, topic, _partitions(door, topic))
        if ours.batch(message.headers()) is not None
        for row in rows_of(sink, message.value())
    ]
    return [row for _, _, row in sorted(found, key=lambda one: one[:2], reverse=True)[:most]]


def plain_letter(letter: DeadLetter, message: Message) -> dict[str, Any]:
    """A dead letter as `holdfast dead-letters --json` prints it: raw as text, or as base64 under raw_base64 if it is
    not UTF-8.
    """
    found = msgspec.structs.asdict(letter)
    try:
        found["raw"] = letter.raw.decode()
    except UnicodeDecodeError:
        found["raw"], found["raw_base64"] = None, base64.b64encode(letter.raw).decode()
    return {**found, "timestamp_ms": message.timestamp()[1]}


def newest_letters(door: Door, topics: JobTopics, most: int) -> list[dict[str, Any]]:
    """The newest dead letters, newest first. Raises CommandFailed if their topic is deleted."""
    name = topics.dead_letters
    found = []
    for _, message in _newest(door.log, name, _partitions(door, name)):
        with suppress(msgspec.DecodeError):
            found.append(plain_letter(decode_dead(message.value() or b""), message))
    return sorted(found, key=lambda one: int(one["timestamp_ms"]), reverse=True)[:most]


def _partitions(door: Door, topic: str) -> int:
    count = door.log.topics().get(topic)
    if count is None:
        raise CommandFailed(f"topic {topic} is gone")
    return count


def _newest(log: Log, topic: str, partitions: int) -> Iterator[tuple[int, Message]]:
    wanted = [Partition(topic, index) for index in range(partitions)]
    starts, ends = log.offsets(wanted, "start"), log.offsets(wanted, "end")
    for partition in wanted:
        for message in log.scan(partition, max(starts[partition], ends[partition] - STRETCH)):
            yield partition.index, message
