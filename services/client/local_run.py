"""Runs a job to its end in this process: the same cores as on a cluster, see in_memory_cluster.py.

Source: JOBS `try`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.dead_letters import decode as decode_dead
from holdfast.schemas.jobs import REGISTERED, JobSpec, Sink
from holdfast.schemas.plans import Plan
from holdfast.schemas.progress import Progress
from holdfast.schemas.progress import decode as decode_progress
from holdfast.schemas.topics import Partition
from holdfast.services.client.in_memory_cluster import InMemoryCluster, LocalRunFailed
from holdfast.services.kernel.codecs.registered import NO_SCHEMAS, Schemas
from holdfast.services.kernel.codecs.sink_schemas import FORMATS
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning import several_sinks

__all__ = ["Finished", "LocalRun", "LocalRunFailed", "complete"]


@dataclass(slots=True)
class Finished:
    """Results of a run.

    rows: JSON records by query, in the order of its topic.
    progress: by unit, at the end.
    fed: records by source.
    """

    plan: Plan
    rows: dict[str, list[bytes]]
    dead: list[DeadLetter]
    progress: dict[str, Progress]
    fed: dict[str, int]


def complete(spec: JobSpec) -> JobSpec:
    """The job with a topic for every source and query: a job that reads and writes files needs none."""
    plain = several_sinks.whole(spec).spec.as_plain()
    for name, source in plain["sources"].items():
        source["topic"] = source["topic"] or f"source.{name}"
        source.pop("topics", None)  # a file's rows replace those of all topics
    for name, query in plain["queries"].items():
        if not (query["sink"] or {}).get("topic"):  # only a cluster writes files
            query["sink"] = Sink(topic=f"query.{name}").model_dump(mode="json")
    return JobSpec.model_validate(plain)


def of_files(spec: JobSpec, of_bytes: Collection[str] = ()) -> JobSpec:
    """The job with rows of files where it reads or writes records that name a schema of a registry: rows of a file name
    none.

    Key and headers of a record are columns of the file.

    Args:
        of_bytes: sources that are given records as their topic holds them.
    """
    plain = spec.as_plain()
    for name, source in plain["sources"].items():
        if name in of_bytes:
            continue
        if source["format"] in REGISTERED:
            source |= {"format": "json", "subject": None, "subject_strategy": "topic", "record": None}
            source["on_schema_change"] = "dead-letter"
        source["key_format"] = None
        if source["format"] != "text":
            source["fields"] = {column: _of_file(one) for column, one in source["fields"].items()}
    for query in plain["queries"].values():
        if query["sink"]["format"] in FORMATS:
            without = dict.fromkeys(("subject", "schema_id", "record"))
            query["sink"] |= {"format": "json", "subject_strategy": "topic", "field_numbers": {}, **without}
        query["sink"] |= {"key_format": None, "key_schema_id": None}
    return JobSpec.model_validate(plain)


def _of_file(field: Any) -> Any:
    """The field as a file has it: key and headers are columns of the file, because its rows have no such metadata."""
    what = field.get("metadata", "") if isinstance(field, dict) else ""
    return field["type"] if what in ("key", "headers") or what.startswith(("header.", "key.")) else field


class LocalRun:
    """A run of one job, from its inputs to its last row.

    Args:
        spec: the job, complete.
        inputs: by source, its records in blocks.
        allow: modules that Python operators may come from.
        schemas: by which records were written that name theirs.
        written: the job as the user wrote it, for the paths of its problems.
    """

    def __init__(
        self,
        spec: JobSpec,
        inputs: Mapping[str, Iterable[list[bytes]]],
        allow: list[str],
        schemas: Schemas = NO_SCHEMAS,
        *,
        written: JobSpec | None = None,
    ) -> None:
        self._spec = spec
        self._inputs = inputs
        self._written = written or spec
        self._cluster = InMemoryCluster(spec, allow, schemas)

    def run(self, processed: Callable[[int], None] = lambda _: None) -> Finished:
        """Feeds everything, drains, and returns what was delivered.

        Args:
            processed: called from time to time with the number of records processed.

        Raises:
            JobRejected: with every problem. LocalRunFailed: with the cause.
        """
        cluster = self._cluster
        cluster.create_topics()
        fed = {name: cluster.feed(name, self._inputs.get(name, ())) for name in self._spec.sources}
        cluster.submit()
        plan = self._plan(processed)
        cluster.until(lambda: cluster.all_are(plan, "running", "ended") or None, processed)
        cluster.drain(plan)
        kept: dict[str, Any] = {}
        cluster.until(lambda: self._ended(plan, kept) or None, processed)
        return Finished(plan, cluster.rows(plan), kept["dead"], kept["progress"], fed=fed)

    def _plan(self, processed: Callable[[int], None]) -> Plan:
        """The plan. Raises JobRejected with problems of the job as the user wrote it, whose sinks `complete` splits."""
        sinks = several_sinks.whole(self._written)
        try:
            found = self._cluster.until(self._cluster.plan, processed)
        except JobRejected as rejected:
            raise JobRejected(sinks.as_written(rejected.problems)) from None
        if sinks.problems:
            raise JobRejected(sinks.problems)
        return found

    def _ended(self, plan: Plan, kept: dict[str, Any]) -> bool:
        """True once the job is over; keeps the records of its own topics while every unit has ended and the topics
        exist.
        """
        cluster = self._cluster
        if cluster.all_are(plan, "ended"):
            topics = cluster.topics_of(plan)
            letters = cluster.log.scan(Partition(topics.dead_letters, 0))
            kept["dead"] = [decode_dead(m.value() or b"") for m in letters]
            known = [decode_progress(m.value() or b"") for m in cluster.log.scan(Partition(topics.progress, 0))]
            kept["progress"] = {one.unit: one for one in known}
        return bool(kept) and cluster.has_ended()
