"""Plans a job file as the cluster would, for `check`, and for the topics that `submit` creates."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.schemas.decided import Id
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import TopicSpec
from holdfast.services.controller.spark_analysis import Describer
from holdfast.services.hosting.plugins import from_folder
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning import several_sinks, several_topics
from holdfast.services.planning.plan import make_plan
from holdfast.services.planning.spark_inputs import operators
from holdfast.services.planning.user_topics import source_topic

NO_GENERATION = "0-000000"


def plan(spec: JobSpec, present: dict[str, int] | None, prefix: str, allow: Sequence[str]) -> Plan:
    """The plan that the controller would make.

    Args:
        present: partitions by topic, None without a cluster: then the topics are taken to be there.

    Raises:
        JobRejected: with every problem.
    """
    from_folder(allow)  # workers start here, too, and import modules of this folder
    topics = present or {}
    return make_plan(
        spec,
        generation=NO_GENERATION,
        id=Id("check", 1),
        topics=present,
        first={topic: dict.fromkeys(range(count), 0) for topic, count in topics.items()},
        prefix=prefix,
        versions={},
        allow=allow,
        describe=Describer(allow),
    )


def missing_topics(
    spec: JobSpec, present: dict[str, int], prefix: str, allow: Sequence[str], partitions: int | None
) -> list[TopicSpec]:
    """The job's missing topics, with their settings; none for a job with problems.

    Sources get one partition per task, sinks the number in the file, or else one per task of their query; `partitions`
    takes precedence over the numbers of tasks.
    """
    try:
        tasks = {} if operators(spec) else plan(spec, None, prefix, allow).sink_partitions
    except JobRejected:
        return []  # the cluster reports every problem
    spec = several_sinks.whole(spec).spec
    each = several_topics.whole(spec, present, prefix).spec
    wanted = {
        source_topic(each, name): partitions or source.parallelism
        for name, source in each.sources.items()
        if source.topic is not None and "*" not in source.topic
    }
    for query in spec.queries.values():
        if query.sink is not None and query.sink.topic:
            # Spark takes seconds to describe an operator's output, and so its readers' tasks: ask once.
            own = query.sink.partitions or partitions or tasks.get(query.sink.topic, 1)
            wanted[query.sink.topic] = own
    return [
        TopicSpec(topic, count, topic_config(topic, spec)) for topic, count in wanted.items() if topic not in present
    ]


def topic_config(topic: str, spec: JobSpec) -> dict[str, str]:
    """Settings of a topic of a job: that of a table, or of rows that are deleted by key, keeps the newest record of
    each key, and so is compacted.
    """
    tables = [source for source in spec.sources.values() if source.topic == topic and source.table is not None]
    sinks = [query.sink for query in spec.queries.values() if query.sink is not None and query.sink.topic == topic]
    return {"cleanup.policy": "compact"} if tables or any(sink.delete_when for sink in sinks) else {}
