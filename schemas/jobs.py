"""The job file: what a user submits.

Source: JOBS "A job file". `JobSpec.model_json_schema()` is what `holdfast schema` prints.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from holdfast.schemas.job_operators import AnyOperator
from holdfast.schemas.job_part import Flag, Input, JobPart, Name, Number, Pattern, Seconds, Tasks, Text, Topic, Whole
from holdfast.schemas.job_settings import FaultTolerance, Placement


def _start(value: str) -> str:
    if value not in ("earliest", "latest"):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            raise PydanticCustomError("start", "not earliest, latest or an ISO 8601 time") from None
    return value


class Renamed(JobPart):
    """A field that has another name in the record."""

    type: Text
    """Its type, as of any field."""
    from_: Text = Field(alias="from")
    """Its name in the record, which may be any text, such as _id or @timestamp."""

    @model_serializer
    def _as_written(self) -> dict[str, str]:
        return {"type": self.type, "from": self.from_}


METADATA = ("key", "timestamp", "topic", "partition", "offset", "headers", "header.NAME", "key.NAME")
"""Metadata of a record."""


def _metadata(value: str) -> str:
    if value in METADATA[:-2] or (value.startswith(("header.", "key.")) and not value.endswith(".")):
        return value
    raise PydanticCustomError("metadata", "not metadata of a record")


class Metadata(JobPart):
    """A field that is metadata of the record and no part of its value."""

    type: Text
    """Its type: string or bytes for key and header.NAME, timestamp for timestamp, string for topic, int for partition
    and offset, "list<struct<name: string, value: string?>>" (or bytes?) for headers; under `key_format` any for key and
    key.NAME; `?`: may be absent."""
    metadata: Annotated[Text, AfterValidator(_metadata)]
    """key, timestamp, topic, partition, offset, headers, header.NAME: the value of the last header of that name, or
    key.NAME under `key_format`: a field of the key."""


def _sign(value: str) -> str:
    if len(value) != 1 or not (value == "\t" or "!" <= value <= "~") or value.isalnum():
        raise PydanticCustomError("csv_sign", "not a sign")
    return value


Sign = Annotated[str, AfterValidator(_sign)]


class CsvOptions(JobPart):
    """Form of the lines of a source of format csv, on its topic and in files for `holdfast try`."""

    delimiter: Sign = ","
    """Sign between two fields: one ASCII character other than a letter, a digit or a space; a tab is "\\t"."""
    quote: Sign = '"'
    """Sign around a field that holds the delimiter, a quote or a line end; a quote inside is written twice."""
    header: Flag = True
    """True if the first line of a file names its columns, so that they may stand in any order; false: a file begins
    with a row, and has the columns of `fields` in their order. A record of a topic is a row in both cases."""
    null_words: list[Text] = Field(default=[])
    """Words that stand for null, as the empty field does, such as NA."""

    @model_validator(mode="after")
    def _unlike(self) -> CsvOptions:
        if self.delimiter == self.quote:
            raise PydanticCustomError("csv_quote", "is the delimiter, too: choose another sign")
        return self


FieldType = Annotated[
    Annotated[Text, Tag("type")] | Annotated[Renamed, Tag("renamed")] | Annotated[Metadata, Tag("metadata")],
    Discriminator(lambda value: _form_of(value)),
]


def _form_of(value: Any) -> str:
    """The tag of the form in which a field is declared."""
    if isinstance(value, Metadata) or (isinstance(value, dict) and "metadata" in value):
        return "metadata"
    return "renamed" if isinstance(value, (dict, Renamed)) else "type"


REGISTERED = ("avro", "json-schema", "protobuf")
"""Formats whose records name a schema of a registry."""


ENVELOPED = ("json", "json-schema")
"""Formats of change records."""


Registered = Literal["avro", "json-schema", "protobuf"]
Strategy = Literal["topic", "record", "topic-record"]


class Source(JobPart):
    """A stream of records: a topic of the user, or a file in a local run."""

    topic: Topic | None = None
    """The user's topic."""
    topics: Annotated[list[Pattern], Field(min_length=1)] | None = None
    """Several topics in place of one, each named, or by a pattern with * for any letters, which stands for the topics
    that there are when the job is submitted. Each is read as a source of its own, and the source is their union."""
    path: Text | None = None
    """A file (ndjson, csv, parquet, arrow, of format text any; .gz) for `holdfast try`."""
    format: Literal["json", "csv", "text", "arrow", "avro", "json-schema", "protobuf"] = "json"
    """How a record's value is written; of arrow, an IPC stream or file, it holds many rows; of text, it is the value of
    the one field, a string. avro, json-schema and protobuf: as a serializer of a Schema Registry writes it, with the id
    of its schema."""
    csv: CsvOptions | None = None
    """Of format csv: its delimiter, quote, words for null, and whether files have a header; null: commas, double
    quotes, a header."""
    subject: Text | None = None
    """Of the Schema Registry: its newest schema gives the fields that are left out; null: as subject_strategy says."""
    subject_strategy: Strategy = "topic"
    """Under which subject the schema is registered: topic, the topic's name and -value (TopicNameStrategy); record, the
    full name of the record (RecordNameStrategy); topic-record, both, with a - between (TopicRecordNameStrategy)."""
    record: Text | None = None
    """Full name of the record, such as shop.Order, for the subject strategies record and topic-record."""
    key_format: Registered | None = None
    """How the record's key is written where it names a schema of a registry, too: avro, json-schema or protobuf.
    Columns of `metadata: key` and key.NAME, and the keys of a table's deletions, are then read by it; null: as text or
    JSON."""
    on_schema_change: Literal["dead-letter", "fail"] = "dead-letter"
    """What becomes of records whose schema does not give the fields any more: dead letters, or the job stops. Both name
    the schema, its subject and version."""
    envelope: Literal["debezium"] | None = None
    """debezium: a record is a change of a row, with `before`, `after` and `op`, alone or as the payload beside a schema
    of Kafka Connect; fields are those of the row, of json and json-schema. A stream has a row for each change, `after`
    or, of a row that was deleted, `before`, and a column op: c (created), r (read at the start), u, d; tombstones give
    no row. In a table a change of op d deletes the row. null: a record is a row."""
    fields: dict[Text, FieldType] = Field(default={})
    """Type by column: string, int, float, bool, decimal(p,s), timestamp, date, bytes, list<...>, struct<...>,
    map<string, ...>; `?` behind a type: may be null. A field with another name in the record: {type: string, from:
    _id}. One that is metadata of the record: {type: string, metadata: key}. Those of the value may be left out where a
    Schema Registry knows them: they are then written into the job when it is submitted."""
    event_time: Text | None = None
    """When it happened: a column, or a polars SQL expression of columns; null: the record's own timestamp."""
    unit: Literal["s", "ms", "us", "ns"] | None = None
    """Unit of timestamps that are written as integers, and of an event_time that is a number, since 1970."""
    allowed_lateness_s: Seconds = 0.0
    """How far the watermark stays behind the newest event time."""
    max_ahead_s: Annotated[Number, Field(gt=0, le=200 * 366 * 24 * 3600)] | None = 3600.0
    """An event time that is further ahead of its record's timestamp makes the record a dead letter: it would move the
    watermark, and all that follows would be late. null: any time is taken."""
    on_ahead: Literal["dead-letter", "clamp"] = "dead-letter"
    """What becomes of a record whose event time is further ahead than max_ahead_s: a dead letter, or its event time is
    set to the record's timestamp; its columns stay as they are."""
    null_records: Literal["dead-letter", "skip"] = "dead-letter"
    """What becomes of records without a value (tombstones) of a stream: dead letters, or they are counted among the
    records and give no row."""
    start: Annotated[str, AfterValidator(_start)] = "earliest"
    """Where reading begins: earliest, latest or an ISO 8601 time (UTC unless it says otherwise)."""
    idle_after_s: Annotated[Number, Field(gt=0, le=7 * 24 * 3600)] | None = 30.0
    """A partition that brings nothing for so long, while others bring records, no longer holds the watermark back, once
    Kafka confirms that it is read to its end; null: it always does. When nothing comes at all no watermark moves."""
    close_after_idle_s: Annotated[Number, Field(gt=0, le=7 * 24 * 3600)] | None = None
    """When no record has come to any source of the job for so long, every window and join range that is open closes.
    Records that come later for what was closed are late. null: all that is open waits for newer records."""
    on_data_loss: Literal["fail", "continue"] = "fail"
    """When the topic's retention deletes records before they were read: fail stops the job, continue counts them as
    lost. Records that are cut already and not in a checkpoint yet stop it also under continue."""
    late: Literal["drop", "topic"] = "drop"
    """Where records go that come when every window, or the join range, that they could count in has closed: counted and
    dropped, or to the dead-letter topic."""
    parallelism: Tasks = 1
    """Number of tasks; each owns some of the topic's partitions."""
    table: Annotated[list[Text], Field(min_length=1)] | None = None
    """Key columns: the topic, which should be compacted and keyed by them, is a table. The newest record of a key is
    its row; one without a value deletes the row that its record key names (the one column as text or JSON, a JSON
    object, or a JSON array in the order given here). A table is read to its end before the job reads anything else,
    and is read by joins alone. event_time, allowed_lateness_s, idle_after_s,
    close_after_idle_s, max_ahead_s, on_ahead, null_records and late mean nothing for it."""

    @model_serializer(mode="wrap")
    def _as_before(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A job without these settings is written as releases that do not have them write it."""
        written: dict[str, Any] = plain(self)
        added = {"csv": None, "topics": None, "subject_strategy": "topic", "record": None, "key_format": None}
        added |= {"on_schema_change": "dead-letter"}
        return {name: one for name, one in written.items() if name not in added or one != added[name]}

    @property
    def types(self) -> dict[str, str]:
        """Type text by column."""
        return {name: one if isinstance(one, str) else one.type for name, one in self.fields.items()}

    @property
    def origins(self) -> dict[str, str]:
        """Name in the record by column, of those that have another one there."""
        return {name: one.from_ for name, one in self.fields.items() if isinstance(one, Renamed)}

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata by column, of those that are no part of the record's value."""
        return {name: one.metadata for name, one in self.fields.items() if isinstance(one, Metadata)}

    @property
    def in_value(self) -> dict[str, str]:
        """Type text by column, of those that the record's value holds."""
        return {name: kind for name, kind in self.types.items() if not isinstance(self.fields[name], Metadata)}

    @model_validator(mode="after")
    def _from_somewhere(self) -> Source:
        if self.topic is None and self.topics is None and self.path is None:
            raise PydanticCustomError("no_origin", "reads from nowhere: neither topic nor path is given")
        if self.topic is not None and self.topics is not None:
            raise PydanticCustomError("two_origins", "are given, and a topic, too: name all in topics")
        if not self.in_value and self.format not in REGISTERED:
            metadata = " that is no metadata" if self.fields else ""
            raise PydanticCustomError("no_fields", f"is missing or empty: a source has at least one field{metadata}")
        return self


def _folder(value: str) -> str:
    if not value.startswith("/") or ".." in value.split("/"):
        raise PydanticCustomError("folder", "not an absolute path without ..")
    return value


class ParquetFiles(JobPart):
    """A folder of Parquet files to which a query's rows go, exactly once."""

    path: Annotated[Text, AfterValidator(_folder)]
    """The folder, an absolute path that means the same on every worker and lies in one of HOLDFAST_FILES."""
    partition_by: Annotated[list[Text], Field(max_length=8)] = Field(default=[])
    """Columns whose values name folders, as Hive has them: carrier=UA/origin=EWR/. The files lack these columns."""


_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")


def _table(value: str) -> str:
    if not _TABLE.fullmatch(value):
        raise PydanticCustomError("table", "not a name of a table")
    return value


class SqlTable(JobPart):
    """A table of a database to which a query's rows go, exactly once."""

    database: Name
    """Its name in the file that HOLDFAST_DATABASES of each worker names; URL and password stand there."""
    table: Annotated[Text, AfterValidator(_table)]
    """The table, perhaps behind its schema and a dot, its letters as they are; it is made if it is missing."""
    key: list[Text] = Field(default=[])
    """Columns by which a row replaces the one that is there, the table's primary key or a unique index; none: rows are
    appended."""


class Sink(JobPart):
    """The topic, the files or the table to which a query's rows go, exactly once."""

    topic: Topic = ""
    """The user's topic."""
    topics: Annotated[list[Topic], Field(min_length=1)] | None = None
    """Several topics in place of one, of which each row goes to the one that topic_by gives. Each is a query of its
    own, under the name of this one and of the topic, and all are written in one transaction."""
    parquet: ParquetFiles | None = None
    """Files in place of a topic."""
    sql: SqlTable | None = None
    """A table of a database in place of a topic."""
    topic_by: Text | None = None
    """A column, or an expression, whose text names the topic of a row, one of topics; a row for which it gives another
    text, or null, is a dead letter."""
    format: Literal["json", "arrow", "avro", "json-schema", "protobuf"] = "json"
    """json: a record is a row, a JSON object; arrow: it is an Arrow IPC stream of many rows, and has no key. avro,
    json-schema and protobuf: a row as a serializer of a Schema Registry writes it; `holdfast submit` registers the
    schema of the columns."""
    subject: Text | None = None
    """Of the Schema Registry, for avro, json-schema and protobuf: where the schema is registered; null: as
    subject_strategy says."""
    subject_strategy: Strategy = "topic"
    """See the setting of a source."""
    record: Text | None = None
    """Full name of the record in its schema, such as shop.Order; null: Row. The strategies record and topic-record need
    it."""
    key_format: Registered | None = None
    """The record's key as a serializer of a Schema Registry writes it: under `key: json` a record of the columns that
    identify a row, else the one column alone (of protobuf, a message with this one field). Its schema is registered
    under the topic's name and -key; null: as `key` says, without a schema."""
    key_schema_id: Annotated[Whole, Field(ge=0, le=2**31 - 1)] | None = None
    """Id of the registered schema of the key; null: `holdfast submit` registers it and writes it here."""
    schema_id: Annotated[Whole, Field(ge=0, le=2**31 - 1)] | None = None
    """Id of the registered schema, which each record names; null: `holdfast submit` registers it and writes it here."""
    field_numbers: dict[Text, Annotated[Whole, Field(ge=1, le=2**29 - 1)]] = Field(default={})
    """Of format protobuf: the number of each field of the message, one within a struct or a list of structs as o.a;
    none: the columns in their order, from 1. `holdfast submit` writes those of the subject's newest schema here, so
    that a field keeps its number."""
    key: Text = "json"
    """The record's key, whose murmur2 chooses the partition, as Kafka's own producers do. json: the columns that
    identify a row, as a JSON array, ["user-1"]; text: the one column that does, as it is, user-1; any other word: the
    column of that name, as text. Rows that nothing identifies have no key under json."""
    headers: dict[Text, Text] = Field(default={})
    """Column by header: a record of format json has these headers, too, each with the value of its row as text, bytes
    as they are; a null gives no header. The columns stay in the row."""
    delete_when: Text | None = None
    """A condition on the columns of a row: where it is true, the record has no value, so that it deletes the row of its
    key in a compacted topic or a table; in a database the row of its key is deleted. Rows need a key and format json;
    null: every record is a row."""
    partitions: Annotated[Whole, Field(ge=1, le=10_000)] | None = None
    """Partitions with which `--create-topics` makes it; null: as many as the query's tasks."""
    commit_interval_ms: Annotated[Whole, Field(ge=0, le=60_000)] = 0
    """Time between two transactions of the query's unit, the smallest of its queries: rows gather meanwhile, and go
    earlier once 32 MiB wait or the job ends; 0: one for every batch that has rows, and of Parquet files, of which each
    transaction makes some, one in 10,000 ms."""

    @model_serializer(mode="wrap")
    def _as_before(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A sink without these settings is written as releases that do not have them write it."""
        written: dict[str, Any] = plain(self)
        newer = ("record", "key_format", "key_schema_id", "topics", "topic_by", "field_numbers", "parquet", "sql")
        added = ("headers", "delete_when", "subject", "schema_id", *newer)
        left_out = {name: one for name, one in written.items() if name not in added or one not in ({}, None)}
        defaults = {("subject_strategy", "topic"), ("topic", "")}
        return {name: one for name, one in left_out.items() if not isinstance(one, str) or (name, one) not in defaults}

    @property
    def places(self) -> list[str]:
        """Topics, the folder of files, or the table."""
        if self.sql is not None:
            return [f"{self.sql.database}.{self.sql.table}"]
        return [self.parquet.path] if self.parquet is not None else self.topics or [self.topic]

    @model_validator(mode="after")
    def _to_somewhere(self) -> Sink:
        if self.parquet is not None and (self.topic or self.topics is not None):
            raise PydanticCustomError("two_sinks", "are given, and a topic, too: a query each, of the same input")
        if self.sql is not None and (self.topic or self.topics is not None or self.parquet is not None):
            also = "files" if self.parquet is not None else "a topic"
            raise PydanticCustomError(
                "table_and_more", "is given, and {also}, too: a query each, of the same input", {"also": also}
            )
        if not self.topic and self.topics is None and self.parquet is None and self.sql is None:
            raise PydanticCustomError("no_sink_topic", "is missing")
        if self.topic and self.topics is not None:
            raise PydanticCustomError("two_sink_topics", "are given, and a topic, too: name all in topics")
        if (self.topics is None) != (self.topic_by is None):
            lacks = "is missing: it says to which of the topics a row goes" if self.topic_by is None else "needs topics"
            raise PydanticCustomError("sink_topic_by", "{lacks}", {"lacks": lacks})
        return self


class Query(JobPart):
    """A result that goes to a sink."""

    input: Input
    """Source or operator whose rows are delivered."""
    sink: Sink | None = None
    """Where they go; may be left out in a local run."""
    priority: Annotated[Whole, Field(ge=1, le=1000)] = 1
    """Units of queries of higher priority are placed again first, and have standbys first where not all can."""
    results: Literal["final", "tentative"] = "final"
    """tentative: early rows from incomplete input, corrected later."""


class JobSpec(JobPart):
    """A job: sources, operators and queries, and how it survives failures."""

    name: Name
    """Unique among running jobs."""
    sources: Annotated[dict[Name, Source], Field(min_length=1)]
    """Source by name."""
    operators: dict[Name, AnyOperator] = Field(default={})
    """Operator by name."""
    queries: Annotated[dict[Name, Query], Field(min_length=1)]
    """Query by name."""
    fault_tolerance: FaultTolerance = FaultTolerance()
    """How the job survives failures."""
    placement: Placement = Placement()
    """Which operators share a unit."""
    batch_interval_ms: Annotated[Whole, Field(ge=1, le=60_000)] | None = None
    """Least time between two batches; null: 10, and up to 1,000 while batches take long, because the machine is full or
    a unit is away."""
    latency_ms: Annotated[Whole, Field(ge=1, le=60_000)] | None = None
    """How long most records may take to become results. Batches are as far apart as that allows, which costs least;
    null: a batch every batch_interval_ms while records come."""
    max_batch_records: Annotated[Whole, Field(ge=1, le=1_000_000)] = 10_000
    """Records of one source task in a batch."""
    max_batch_bytes: Annotated[Whole, Field(ge=1024, le=256 * 1024 * 1024)] = 8 * 1024 * 1024
    """Bytes of one source task in a batch."""
    on_error: Literal["fail", "retry", "dead-letter"] = "dead-letter"
    """When an operator raises on a row: stop the job, try again, or dead-letter the row and continue."""
    dead_letter_share: Annotated[Number, Field(ge=0, le=1)] = 1.0
    """The job fails when a larger share of the records that it has cut are dead letters, once that is more than of the
    first 1,000 records; 0: at the first one; 1: no limit."""
    memory_limit_mb: Annotated[Whole, Field(ge=1, le=1024 * 1024)] | None = None
    """The job fails when the state of one of its units takes more, MiB, as `units --costs` shows it; null: no limit."""
    on_divergence: Literal["fail", "continue"] = "fail"
    """When a copy computes other rows for a batch than another copy has sent, so an operator is no pure function of its
    input: stop the job, or count what was sent first and publish an event."""
    keep_dead_letters_s: Annotated[Number, Field(ge=0, le=366 * 24 * 3600)] = 7 * 24 * 3600.0
    """How long a dead letter is kept, also when the job has ended; 0: until the job ends, and then no longer."""
    keep_dead_letters_bytes: Annotated[Whole, Field(ge=1024 * 1024)] = 1024**3
    """The oldest dead letters go, however young, when there are more bytes."""
    keep_cuts: Flag = False
    """Keep the whole cut log, while the job runs and when it has ended, for `holdfast replay`."""
    replay_horizon_s: Annotated[Number, Field(ge=0, le=366 * 24 * 3600)] = 3600.0
    """How long cuts are kept for `holdfast replay`, while the job runs. The user's topics must keep their records for
    as long; submitting warns when they keep less."""
    retain_bytes: Annotated[Whole, Field(ge=1024 * 1024)] | None = None
    """While so many bytes lie between the job's units that a reader has not acknowledged with a checkpoint, the sources
    begin no batch: records wait in the user's topics. What was cut before comes on top; null: no limit."""

    def as_plain(self) -> dict[str, Any]:
        """Plain data with every default filled in: what a plan carries and JSON can hold."""
        return self.model_dump(mode="json")
