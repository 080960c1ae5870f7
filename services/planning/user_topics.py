"""Checks the user's own topics: topics that a job reads and writes must exist, and must differ.

Source: JOBS "create missing topics only with --create-topics", PROTOCOL 3 and 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.plurals import plural
from holdfast.services.kernel.suggestions import did_you_mean
from holdfast.services.planning.graph import Graph


def source_topic(spec: JobSpec, name: str) -> str:
    """The topic of a source. In a local run, a source with only a file gets a topic of its own name."""
    return spec.sources[name].topic or f"source.{name}"


def sink_topic(spec: JobSpec, query: str) -> str:
    """The topic of a query; empty if its rows are written to files. In a local run, a query without a sink gets a topic
    of its own name."""
    sink = spec.queries[query].sink
    return sink.topic if sink is not None else f"query.{query}"


def named(spec: JobSpec) -> set[str]:
    """Names of all topics of the user in the job."""
    read = {source.topic for source in spec.sources.values() if source.topic}
    read |= {one for source in spec.sources.values() for one in source.topics or () if "*" not in one}
    sinks = [query.sink for query in spec.queries.values() if query.sink is not None]
    return read | {one for sink in sinks for one in sink.topics or [sink.topic] if one}


def conflicts(spec: JobSpec, prefix: str) -> Iterator[Problem]:
    """Problems of topics that the job both reads and writes, or that another query or the cluster writes."""
    read = {source_topic(spec, name): name for name in spec.sources}
    written: dict[str, str] = {}
    for name, query in spec.queries.items():
        if query.sink is None or not query.sink.topic:
            continue
        topic, path = query.sink.topic, f"queries.{name}.sink.topic"
        if topic in read:
            yield Problem(path, f"is the topic of source {read[topic]}: the job would read its own results")
        if topic in written:
            yield Problem(path, f"is the topic of query {written[topic]}, too", "one topic a query")
        if topic.startswith(f"{prefix}."):
            yield Problem(path, f"names that begin with '{prefix}.' belong to the cluster", "choose another")
        written.setdefault(topic, name)
    yield from _starts(spec)


def _starts(spec: JobSpec) -> Iterator[Problem]:
    """Problems of two sources that read one topic from different starts. A plan has one first offset for each
    partition."""
    first: dict[str, str] = {}
    for name, source in spec.sources.items():
        other = first.setdefault(source_topic(spec, name), name)
        if source.start != spec.sources[other].start:
            message = f"source {other} reads the same topic from {spec.sources[other].start}"
            yield Problem(f"sources.{name}.start", message, "use the same start, or one source")


def absences(spec: JobSpec, graph: Graph, topics: Mapping[str, int]) -> Iterator[Problem]:
    """Problems of topics and partitions that the job needs and the cluster lacks, with the command that creates
    them.
    """
    for name, source in spec.sources.items():
        if name not in graph.needed:
            continue
        path = f"sources.{name}.topic"
        if source.topic is None:
            yield Problem(path, "is missing: on a cluster a source reads a topic", "path is for `holdfast try`")
        elif source.topic not in topics:
            create = f"`holdfast send {source.topic} FILE --create-topics` creates it"
            yield Problem(path, f"there is no topic '{source.topic}'", _hint(source.topic, topics, create))
        elif source.parallelism > topics[source.topic]:
            partitions = plural(topics[source.topic], "partition")
            message = f"{plural(source.parallelism, 'task')}, but topic {source.topic} has {partitions}"
            yield Problem(f"sources.{name}.parallelism", message, f"at most {topics[source.topic]}")
    for name, query in spec.queries.items():
        if query.sink is None:
            message = "is missing: on a cluster a query writes a topic"
            yield Problem(f"queries.{name}.sink", message, "add `sink: {topic: ...}`")
        elif query.sink.topic and query.sink.topic not in topics:
            create = "`holdfast submit --create-topics` creates it"
            message = f"there is no topic '{query.sink.topic}'"
            yield Problem(f"queries.{name}.sink.topic", message, _hint(query.sink.topic, topics, create))


def _hint(topic: str, topics: Mapping[str, int], create: str) -> str:
    near = did_you_mean(topic, topics)
    return f"{near} {create}" if near else create


def partition_warnings(spec: JobSpec, topics: Mapping[str, int]) -> Iterator[str]:
    """Warnings about sinks whose topic exists with another number of partitions, which stays."""
    for name, query in spec.queries.items():
        sink = query.sink
        if sink is not None and sink.topic and sink.partitions not in (None, topics.get(sink.topic)):
            yield f"queries.{name}.sink.partitions: topic {sink.topic} has {topics.get(sink.topic)}"
