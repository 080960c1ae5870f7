"""Creates the feed of a source task, for a user's topic or for the commits of a Spark driver.

Source: PROTOCOL 3 and 12.
"""

from __future__ import annotations

from functools import partial

from holdfast.schemas.cuts import TaskCuts
from holdfast.schemas.plans import REAL_TIME
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.codecs import protobuf_schemas
from holdfast.services.kernel.codecs.registered import KINDS, AbsentSchemas
from holdfast.services.kernel.errors import NoRegistry
from holdfast.services.kernel.plans.layout import TaskLayout, spark_plan, task_name
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.surroundings import HostServices
from holdfast.services.worker.sources.feed import Feed
from holdfast.services.worker.sources.fetched import Fetched
from holdfast.services.worker.sources.recut import RecutFeed
from holdfast.services.worker.sources.rows import RowsFeed
from holdfast.services.worker.sources.user_topic import SourceFeed


def feed_of(job: JobView, task: TaskLayout, state: TaskCuts, batch: int, around: HostServices) -> Feed:
    """The feed of a source, or of the commits of a Spark driver.

    Raises:
        NoRegistry: the source's records name schemas, and this worker has no registry.
    """
    if task.operator.kind == "spark":
        spark, topic = spark_plan(job.plan, task.operator.name), job.topics.commits(task.operator.name)

        def refuse(partition: int, offset: int, cause: str) -> None:
            around.refusals.refuse(Partition(topic, partition), offset, cause, job.plan.job)

        if spark.mode == REAL_TIME:
            return RowsFeed(task, state, batch, spark, refuse=refuse)
        return RecutFeed(task, state, batch, spark.first_positions, refuse=partial(refuse, 0), of_users=spark.of_users)
    schemas, source = None, task.operator.source
    for format in (source.format, source.key_format):
        if format not in KINDS:
            continue
        if isinstance(around.schemas, AbsentSchemas):
            raise NoRegistry(f"source {task.operator.name} reads {format}, and {around.schemas.cause}")
        if format == "protobuf" and (absent := protobuf_schemas.missing()):
            raise NoRegistry(f"source {task.operator.name} reads {format}, and {absent}")
        schemas = schemas or Fetched(around.schemas, around.asks, around.time_ms)
    return SourceFeed(task, state, batch, now_ms=around.clock_ms(), schemas=schemas)


def table_tasks(job: JobView) -> list[str]:
    """Names of the source tasks that read tables."""
    tables = job.plan.tables
    return [
        task_name(s.operator, index) for s in job.plan.sources if s.operator in tables for index in range(len(s.owners))
    ]
