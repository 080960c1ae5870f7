"""A plan: the controller's result for a job, and the decision records of `jobs.plans` and `jobs.status`.

Source: PROTOCOL 1. A plan is compact: services/planning derives tasks, partitions and writers from it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from holdfast.schemas.cuts import TaskCuts
from holdfast.schemas.decided import Id
from holdfast.schemas.decoders import Count, Micros, Strict, Text, Whole
from holdfast.schemas.leaps import Leap
from holdfast.schemas.operator_settings import NO_PYTHON, OperatorSettings, PythonSettings, operator_settings
from holdfast.schemas.plan_settings import PlanSettings, settings_of
from holdfast.schemas.retired import Retired
from holdfast.schemas.sink_plans import NO_SINK, SinkPlan
from holdfast.schemas.source_settings import NO_SOURCE, SourceSettings


class OperatorPlan(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """An operator of the DAG, including sources and sinks.

    kind: source, filter, select, aggregate, join, asof_join, top, union, unnest, dedup, python, output, spark, sink.
        A sink is called `sink-<query>`.
        spark: the task of the kernel that brings back the commits of a Spark driver; it has no inputs.
    params: the operator's part of the job file, defaults filled in.
    fields: type text by column of the output.
    row_key: columns that identify an output row; empty: rows are only added.
    """

    name: str
    kind: str
    parallelism: int
    inputs: tuple[str, ...]
    params: dict[str, Any]
    fields: dict[str, str]
    row_key: tuple[str, ...] = ()

    @cached_property
    def settings(self) -> OperatorSettings:
        """Settings of an operator, in the struct of its kind. Raises msgspec.ValidationError."""
        return operator_settings(self.kind, self.params)

    @cached_property
    def source(self) -> SourceSettings:
        """Settings of a source; the defaults of any other operator. Raises msgspec.ValidationError."""
        return msgspec.convert(self.params, SourceSettings) if self.kind == "source" else NO_SOURCE

    @cached_property
    def sink(self) -> SinkPlan:
        """Settings of a sink; the defaults of any other operator. Raises msgspec.ValidationError."""
        return msgspec.convert(self.params, SinkPlan) if self.kind == "sink" else NO_SINK

    @property
    def python(self) -> PythonSettings:
        """Settings of a Python operator; the defaults of any other operator. Raises msgspec.ValidationError."""
        return self.settings if isinstance(self.settings, PythonSettings) else NO_PYTHON

    @property
    def folder(self) -> str:
        """Folder of a sink whose rows go to files; empty of any other operator."""
        return "" if self.sink.parquet is None else self.sink.parquet.path

    @property
    def table(self) -> str:
        """Table of a sink whose rows go to a database, behind its name there; empty of any other operator."""
        told = self.sink.sql
        return "" if told is None else f"{told.database}.{told.table}"

    @property
    def elsewhere(self) -> str:
        """Place of a sink's rows that is no topic; empty of any other operator."""
        return self.folder or (f"table {self.table}" if self.table else "")

    @property
    def written_topic(self) -> str:
        """Topic that a sink writes; empty of any other operator."""
        return self.sink.topic


class Edge(msgspec.Struct, frozen=True, omit_defaults=True):
    """Operator `producer` feeds input `slot` of `consumer`.

    routing: forward (task i to task i), merge (i to i mod readers), spread (rows cut into equal slices), keyed (by
        hash of `key`).
    topic: None: both ends of a forward edge are in one unit.
    """

    producer: str
    consumer: str
    slot: int
    routing: str
    key: tuple[str, ...] = ()
    topic: str | None = None


class UnitPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A unit: task `index` of each of `operators`, in topological order.

    partition: its checkpoint partition.
    scheme: its scheme without a replica.
    host: the kind of process that takes it: a worker (empty), or a Spark driver (`spark`).
    planned: true if the job has a replication budget, and its replication plan gives the unit a replica or not.
    """

    name: str
    index: int
    operators: tuple[str, ...]
    partition: int
    scheme: str = "none"
    delivers: bool = False
    """True if the unit may write sink rows or dead letters, so that it owns a transactional id."""
    host: str = ""
    planned: bool = False


class SourcePlan(msgspec.Struct, frozen=True):
    """The user's topic as it was at admission.

    owners: by source task, its partitions.
    first: offset from which each partition is read.
    topic_id: Kafka's id of this topic; empty: not known, so no process notices when the topic is created again.
    """

    operator: str
    topic: str
    owners: tuple[tuple[int, ...], ...]
    first: dict[int, int]
    topic_id: str = ""


MICRO_BATCH, REAL_TIME = "micro-batch", "real-time"
"""Modes of a Spark query."""


SPARK_INPUT = "input"
"""Name of the one input of a Spark operator."""


class SparkInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """An input of a Spark operator.

    topic: of JSON records, the user's own or one that a sink task `input-<operator>` writes.
    fields: type text by column of the input.
    first: offset from which each partition is read.
    name: of the table in a query, and of the argument of a function.
    writers: units that write the topic; the user's own has none.
    source: the source of the topic, in the job file.
    event_time, unit_of_time, lateness_s, idle_after_s: as a source declares them.
    """

    topic: str
    fields: dict[str, str]
    first: dict[int, int]
    name: str = SPARK_INPUT
    writers: tuple[str, ...] = ()
    source: str = ""
    event_time: str = ""
    unit_of_time: str = ""
    lateness_s: float = 0.0
    idle_after_s: float | None = None


class SparkPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The work of a Spark driver: the unit that hosts it, its inputs, its computation.

    topic, fields, first, writers, source, event_time, unit_of_time, lateness_s, idle_after_s, name: of its first input.
    more: its other inputs.
    output: type text by column; of a function with several outputs, the columns of all together.
    outputs: the columns of each output of such a function; its event time is `_time` if they have one.
    time: column of the output with the event time; empty: the time of the micro-batch.
    timed: Spark has a watermark for that column.
    holds: rows wait in Spark for others, such as those of an open window.
    closes: a watermark at the end of the stream brings them out.
    mode: of the query, and the reason for it.
    conf: settings of Spark for its session.
    """

    operator: str
    unit: str
    topic: str
    fields: dict[str, str]
    first: dict[int, int]
    output: dict[str, str]
    entry: str = ""
    sql: str = ""
    params: dict[str, Any] = {}
    emit: str = "final"
    writers: tuple[str, ...] = ()
    source: str = ""
    event_time: str = ""
    unit_of_time: str = ""
    lateness_s: float = 0.0
    idle_after_s: float | None = None
    time: str = ""
    timed: bool = False
    holds: bool = False
    closes: bool = False
    mode: str = MICRO_BATCH
    reason: str = ""
    name: str = SPARK_INPUT
    more: tuple[SparkInput, ...] = ()
    conf: dict[str, str] = {}
    outputs: dict[str, dict[str, str]] = {}

    @property
    def inputs(self) -> tuple[SparkInput, ...]:
        """All inputs, in the order of the job file."""
        first = {name: getattr(self, name) for name in SparkInput.__struct_fields__}
        return (SparkInput(**first), *self.more)

    @property
    def first_positions(self) -> dict[str, dict[int, int]]:
        """First offsets to read, by topic and partition."""
        return {self.topic: self.first} | {one.topic: one.first for one in self.more}

    @property
    def every_writer(self) -> frozenset[str]:
        """Units that write one of its inputs."""
        return frozenset(self.writers).union(*(one.writers for one in self.more))

    @property
    def of_users(self) -> frozenset[str]:
        """Topics of users that it reads itself."""
        return frozenset(one.topic for one in self.inputs if not one.writers)


class Seed(msgspec.Struct, frozen=True):
    """The savepoint with which a job begins: its first batch is the one after `batch`.

    topic: topic that holds the state.
    savepoint: its id.
    sources: by source task, its beginning.
    watermarks: by task, of its inputs, as far as they are known.
    kept: operators whose state is carried over.
    renamed: of these, the former name, if it was another one.
    rescaled: of these, those whose state is split and merged by key, since they had another number of tasks.
    replaces: generation of the job of that name that ends for this one; empty: none.
    rests: true if the job begins paused, as the replaced one was.
    waits: true if its copies stand by, with a state from before the batch, until a following plan states the beginning.
    switched: offset in `jobs.submit` of the command that asked for that plan; -1: none did.
    given_up: in the following plan, why the job never begins.
    proven_after: number of batches after which the update counts as proven healthy; 0: not stated.
    """

    topic: str
    savepoint: str
    batch: Count
    sources: dict[str, TaskCuts]
    watermarks: dict[str, Micros]
    kept: tuple[str, ...] = ()
    renamed: dict[str, str] = {}
    rescaled: tuple[str, ...] = ()
    replaces: str = ""
    rests: bool = False
    waits: bool = False
    switched: Whole = -1
    given_up: str = ""
    proven_after: Count = 0


class Plan(msgspec.Struct, frozen=True, tag="plan", tag_field="type", dict=True):
    """An admitted job.

    versions: of the libraries whose output bytes matter; other workers refuse the unit.
    seed: the savepoint with which it begins; None: it begins without state, at batch 1.
    """

    job: str
    generation: str
    id: Id
    spec: dict[str, Any]
    operators: tuple[OperatorPlan, ...]
    edges: tuple[Edge, ...]
    units: tuple[UnitPlan, ...]
    sources: tuple[SourcePlan, ...]
    sink_partitions: dict[str, int]
    interval_ms: int
    versions: dict[str, str]
    warnings: tuple[str, ...] = ()
    prev: Id | None = None
    spark: tuple[SparkPlan, ...] = ()
    seed: Seed | None = None

    @cached_property
    def settings(self) -> PlanSettings:
        """The settings of the spec that services read. Raises msgspec.ValidationError."""
        return settings_of(self.spec)

    @property
    def tables(self) -> frozenset[str]:
        """Sources that are tables."""
        return frozenset(one.name for one in self.operators if one.source.table)

    @property
    def first_batch(self) -> int:
        """The batch before the job's first one."""
        return 0 if self.seed is None else self.seed.batch

    @property
    def stands_by(self) -> bool:
        """True while another generation leads, and for ever if the job was given up before it began."""
        return self.seed is not None and (self.seed.waits or bool(self.seed.given_up))


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A mistake in a job file: its place, the mistake, and the remedy."""

    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class Rejection(msgspec.Struct, frozen=True, tag="rejection", tag_field="type"):
    """A job that was not admitted, with every reason."""

    job: str
    generation: str
    id: Id
    problems: tuple[Problem, ...]
    prev: Id | None = None


class Counts(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Records of a whole job, summed over its units' last reports; see schemas/progress.py.

    These outlive the job's progress, which is deleted with its topics.
    """

    records: Count = 0
    late: Count = 0
    dead: Count = 0
    lost: Count = 0
    late_dropped: dict[str, Count] = {}
    leap: Leap | None = None


class Ended(Counts, frozen=True, omit_defaults=True, tag="ended", tag_field="type"):
    """The job is over: copies unplaced, sink ids fenced, topics deleted. Its name is free again."""

    job: str
    generation: str
    id: Id
    prev: Id
    reason: str


class Skip(msgspec.Struct, frozen=True, tag="skip", tag_field="type", omit_defaults=True):
    """A person's decision: every reader passes over this record of the job's own topics, as if it were not there."""

    job: str
    generation: str
    topic: str
    partition: Count
    offset: Count
    time_ms: int = 0


Decision = Plan | Rejection | Ended


class Retirement(msgspec.Struct, frozen=True, tag="retired", tag_field="type"):
    """Jobs that ended or were rejected leave `jobs.plans`; a running job is kept, whatever the author states."""

    retired: Retired
    author: str = ""
    time_ms: Whole = 0


class Kept(msgspec.Struct, frozen=True):
    """A record of `jobs.plans` or `jobs.submit` that still counts, unchanged.

    time_ms: its timestamp.
    """

    offset: Count
    time_ms: Whole
    record: str


class Snapshot(msgspec.Struct, frozen=True, tag="snapshot", tag_field="type"):
    """All valid records of `jobs.plans` below `upto` and of `jobs.submit` below `submit`: a fact, so any process may
    append it.

    decisions: of `jobs.plans`.
    commands: of `jobs.submit`. Every job submitted below `submit` is decided.
    """

    upto: Count
    submit: Count
    decisions: tuple[Kept, ...]
    commands: tuple[Kept, ...]
    retired: Retired = Retired()
    author: str = ""
    time_ms: Whole = 0


Record = Decision | Skip | Retirement | Snapshot
"""Kinds of records of `jobs.plans`."""


class QueryState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Availability of a query: all its units run, and after a failure its results are about as fast as before.

    since_ms: time of day since which `available` has its value.
    latency_ms: mean of the last 10 s, from the arrival of a record until its results are out.
    before_ms: latency before the failure, or the median of the last minute while there is none.
    relative: latency_ms divided by before_ms; null: not known.
    catching_up: true if all units run, but after a failure results still come later than before.
    """

    query: str
    available: bool
    since_ms: Count = 0
    latency_ms: float | None = None
    before_ms: float | None = None
    relative: float | None = None
    catching_up: bool = False


class Status(Counts, frozen=True, omit_defaults=True):
    """State of a job for people; key `<job>@<generation>` in `jobs.status`. Counts: once its copies are gone.

    state: accepted, starting, running, pausing, paused, stopped (until a person's command), waiting (for a missing
        topic), draining, cancelling, failed, ended, rejected.
    since_ms: time of day since which it has this state; 0: not known, as it began before the controller, and no status
        was published.
    queries: of a job that runs.
    """

    job: str
    generation: str
    state: str
    time_ms: int
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    available: int = 0
    units: int = 0
    error: str = ""
    since_ms: Count = 0
    queries: tuple[QueryState, ...] = ()


_decision: Text[Decision] = Text(msgspec.json.Decoder(Decision).decode)
_any: Text[Record] = Text(msgspec.json.Decoder(Record).decode)
_status = Strict(msgspec.json.Decoder(Status).decode)


def decode(data: bytes) -> Decision:
    """Decodes a decision. Raises msgspec.DecodeError on malformed bytes."""
    return _decision.decode(data)


def decode_any(data: bytes) -> Record:
    """Decodes any record of `jobs.plans`. Raises msgspec.DecodeError on malformed bytes."""
    return _any.decode(data)


def decode_status(data: bytes) -> Status:
    """Decodes a status. Raises msgspec.DecodeError on malformed bytes."""
    return _status.decode(data)


def encode(record: Record | Status) -> bytes:
    return msgspec.json.encode(record)
