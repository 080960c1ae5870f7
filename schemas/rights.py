"""Rights of each service on Kafka, derived from the names of topics; ACLs are made from them.

Source: docs/decisions/0076. A person grants the rights on the topics that all jobs share, once. The controller grants
those on the topics of a job together with the topics, since a name has the generation in its middle and ACLs match only
the beginning of a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from holdfast.schemas.topics import ClusterTopics, JobTopics


class Role(StrEnum):
    """The role of a process towards Kafka. operator: a person's commands. console: only reads."""

    CONTROLLER = "controller"
    RECOVERY = "recovery"
    WORKER = "worker"
    SPARK = "spark"
    OPERATOR = "operator"
    CONSOLE = "console"


SERVICES = tuple(role for role in Role if role is not Role.OPERATOR)


class On(StrEnum):
    """The kind of resource of a right, in Kafka's words."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"


class Do(StrEnum):
    """An operation, in Kafka's words. READ, WRITE and DELETE include DESCRIBE.

    DELETE: of records, and of the topic; Kafka does not distinguish the two.
    """

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    DESCRIBE = "describe"
    DESCRIBE_CONFIGS = "describe-configs"
    ALTER = "alter"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """A role's right to one operation.

    begins: true if `name` is the beginning of names, not a whole one.
    """

    role: Role
    on: On
    name: str
    do: Do
    begins: bool = False


KAFKA_CLUSTER = "kafka-cluster"
"""Kafka's only name of a resource of kind cluster."""
READERS_GROUP = "holdfast-"
"""Prefix of the groups of the project's readers, which have no members (services/log/kafka/reader.py)."""
SPARKS_GROUP = "spark-kafka-"

_C, _R, _W, _S, _O = Role.CONTROLLER, Role.RECOVERY, Role.WORKER, Role.SPARK, Role.OPERATOR
_SHOWS = Role.CONSOLE
SHARED_WRITERS = {
    "jobs.submit": (_O, _C),  # a controller's parent asks there whether it answers
    "jobs.plans": (_C, _O),  # `holdfast repair` decides to skip a record
    "jobs.status": (_C,),
    "assignments": (_C, _R),
    "heartbeats": (_R, _W, _S),  # a replica of recovery reads its own echo there
    "events": tuple(role for role in Role if role is not _SHOWS),
}
"""Writers of each topic that all jobs share, by the end of its name."""
SHARED_TRIMMERS = {"jobs.submit": (_C,), "jobs.plans": (_C,), "assignments": (_R,)}


def of_cluster(topics: ClusterTopics) -> list[Right]:
    """Returns the rights of each role that do not depend on jobs."""
    return sorted({*_everywhere(topics), *_shared(topics)})


def of_job(job: JobTopics) -> list[Right]:
    """Returns the rights of each role on the topics of one generation, and on its transactions."""
    return sorted(_of_job(job))


def of_users_topics(reads: Iterable[str], writes: Iterable[str]) -> list[Right]:
    """Returns the rights on the topics of sources and sinks; a name that ends in `*` is the beginning of names."""
    return sorted({*_on_sources(reads), *_on_sinks(writes)})


def user(prefix: str, role: Role) -> str:
    """Returns the user name under which a role of the cluster logs in."""
    return f"{prefix}-{role}"


def _everywhere(topics: ClusterTopics) -> Iterator[Right]:
    all_ours = f"{topics.prefix}."
    for role in Role:
        yield Right(role, On.TOPIC, all_ours, Do.READ, begins=True)
        yield Right(role, On.TOPIC, all_ours, Do.DESCRIBE_CONFIGS, begins=True)
        yield Right(role, On.GROUP, READERS_GROUP, Do.DESCRIBE, begins=True)
    for role in (_C, _R):  # each replica is a group of its own
        yield Right(role, On.GROUP, f"{topics.prefix}-", Do.READ, begins=True)
    yield Right(_S, On.GROUP, SPARKS_GROUP, Do.READ, begins=True)
    for do in (Do.CREATE, Do.DELETE):
        yield Right(_C, On.TOPIC, all_ours, do, begins=True)
    yield Right(_C, On.CLUSTER, KAFKA_CLUSTER, Do.ALTER)  # the controller gives the rights of a job
    for do in (Do.CREATE, Do.WRITE, Do.DELETE):  # a savepoint that a job is to begin with
        yield Right(_O, On.TOPIC, topics.savepoints, do, begins=True)


def _shared(topics: ClusterTopics) -> Iterator[Right]:
    for spec in topics.specs():
        name = spec.name.removeprefix(f"{topics.prefix}.")
        yield from (Right(role, On.TOPIC, spec.name, Do.WRITE) for role in SHARED_WRITERS[name])
        yield from (Right(role, On.TOPIC, spec.name, Do.DELETE) for role in SHARED_TRIMMERS.get(name, ()))


def _of_job(job: JobTopics) -> Iterator[Right]:
    for topic in (job.cuts, job.checkpoints, job.progress, job.delivered, job.dead_letters):
        yield Right(_W, On.TOPIC, topic, Do.WRITE)
    for beginning in (job.all_data, job.all_rows):
        yield Right(_W, On.TOPIC, beginning, Do.WRITE, begins=True)
    for topic in (job.cuts, job.checkpoints):  # to trim them
        yield Right(_W, On.TOPIC, topic, Do.DELETE)
    for beginning in (job.all_data, job.all_commits):
        yield Right(_W, On.TOPIC, beginning, Do.DELETE, begins=True)
    for beginning in (job.all_commits, job.all_query_files):
        yield Right(_S, On.TOPIC, beginning, Do.WRITE, begins=True)
    yield Right(_S, On.TOPIC, job.progress, Do.WRITE)
    yield Right(_C, On.TOPIC, job.cuts, Do.WRITE)  # pause, resume, drain
    for topic in (job.checkpoints, job.progress):  # the state of the savepoint with which it begins
        yield Right(_C, On.TOPIC, topic, Do.WRITE)
    for role in (_W, _C):  # the controller fences them at the job's end
        yield Right(role, On.TRANSACTIONAL_ID, f"{job.root}.", Do.WRITE, begins=True)
    for do in (Do.CREATE, Do.WRITE):
        yield Right(_O, On.TOPIC, job.replayed.name, do)
    yield Right(_O, On.TRANSACTIONAL_ID, job.transactional_id("replay"), Do.WRITE)


def _on_sources(names: Iterable[str]) -> Iterator[Right]:
    may = ((_W, Do.READ), (_S, Do.READ), (_C, Do.READ), (_C, Do.DESCRIBE_CONFIGS), (_W, Do.DESCRIBE_CONFIGS))
    yield from _on(
        names, (*may, (_O, Do.READ), (_O, Do.WRITE), (_O, Do.CREATE), (_O, Do.DESCRIBE_CONFIGS), (_SHOWS, Do.DESCRIBE))
    )


def _on_sinks(names: Iterable[str]) -> Iterator[Right]:
    may = ((_W, Do.WRITE), (_W, Do.DESCRIBE_CONFIGS), (_C, Do.DESCRIBE), (_C, Do.DESCRIBE_CONFIGS))
    yield from _on(names, (*may, (_O, Do.READ), (_O, Do.CREATE), (_O, Do.DESCRIBE_CONFIGS), (_SHOWS, Do.READ)))


def _on(names: Iterable[str], may: Iterable[tuple[Role, Do]]) -> Iterator[Right]:
    allowed = list(may)
    for name in names:
        yield from (Right(role, On.TOPIC, name.rstrip("*"), do, begins=name.endswith("*")) for role, do in allowed)
