"""Rights are least: each topic has its writers, and nobody has more than the table of decision 0076 says."""

from __future__ import annotations

from itertools import product

import pytest
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourcePatternType

from holdfast.schemas.rights import Do, On, Right, Role, of_cluster, of_job, of_users_topics, user
from holdfast.schemas.topics import ClusterTopics, JobTopics
from holdfast.services.log.kafka.rights import binding, command

CLUSTER = ClusterTopics("ours")
JOB = CLUSTER.job("flights", "7-abcdef")
RIGHTS = of_cluster(CLUSTER) + of_job(JOB)
EVERYBODY = set(Role)


def may(role: Role, do: Do, topic: str, rights: list[Right] = RIGHTS) -> bool:
    mine = [one for one in rights if (one.role, one.on, one.do) == (role, On.TOPIC, do)]
    return any(topic.startswith(one.name) if one.begins else topic == one.name for one in mine)


def who(do: Do, topic: str) -> set[Role]:
    return {role for role in Role if may(role, do, topic)}


WRITERS = {
    CLUSTER.submit: {Role.OPERATOR, Role.CONTROLLER},
    CLUSTER.plans: {Role.OPERATOR, Role.CONTROLLER},
    CLUSTER.status: {Role.CONTROLLER},
    CLUSTER.assignments: {Role.CONTROLLER, Role.RECOVERY},
    CLUSTER.heartbeats: {Role.RECOVERY, Role.WORKER, Role.SPARK},
    CLUSTER.events: EVERYBODY - {Role.CONSOLE},
    JOB.cuts: {Role.WORKER, Role.CONTROLLER},
    JOB.checkpoints: {Role.WORKER, Role.CONTROLLER},
    JOB.progress: {Role.WORKER, Role.SPARK, Role.CONTROLLER},
    JOB.delivered: {Role.WORKER},
    JOB.dead_letters: {Role.WORKER},
    JOB.replayed.name: {Role.OPERATOR},
    JOB.data("shaped", 0): {Role.WORKER},
    JOB.rows("model"): {Role.WORKER},
    JOB.commits("model"): {Role.SPARK},
    JOB.query_files("model"): {Role.SPARK},
}


def every_topic(job: JobTopics) -> set[str]:
    made = {job.data("shaped", 0): 1, job.commits("model"): 1, job.rows("model"): 1, job.query_files("model"): 1}
    return {spec.name for spec in (*CLUSTER.specs(), *job.specs(1, made), job.replayed)}


@pytest.mark.parametrize("topic", sorted(every_topic(JOB)))
def test_each_topic_has_the_writers_that_the_protocol_names(topic: str) -> None:
    assert who(Do.WRITE, topic) == WRITERS[topic]


@pytest.mark.parametrize("topic", sorted(every_topic(JOB)))
def test_everybody_reads_and_the_controller_alone_makes_topics(topic: str) -> None:
    assert who(Do.READ, topic) == EVERYBODY
    made_by = {Role.CONTROLLER, Role.OPERATOR} if topic == JOB.replayed.name else {Role.CONTROLLER}
    assert who(Do.CREATE, topic) == made_by
    assert who(Do.ALTER, topic) == set()


def test_each_topic_has_the_role_that_deletes_it() -> None:
    """To delete a record is to Kafka the same right as to delete the topic."""
    trims = {JOB.cuts, JOB.checkpoints, JOB.data("shaped", 0), JOB.commits("model")}
    for topic in every_topic(JOB):
        also = {Role.WORKER} if topic in trims else {Role.RECOVERY} if topic == CLUSTER.assignments else set()
        assert who(Do.DELETE, topic) == {Role.CONTROLLER} | also, topic


def test_a_right_of_one_job_is_none_of_another() -> None:
    for other in (CLUSTER.job("flights", "8-abcdef"), CLUSTER.job("flights-2", "7-abcdef")):
        rights = of_job(JOB)
        for topic, role in product(every_topic(other) - every_topic(JOB), Role):
            assert not any(may(role, do, topic, rights) for do in Do)
        for one in rights:
            assert one.on is not On.TRANSACTIONAL_ID or not other.transactional_id("u-0").startswith(one.name)


def test_a_right_of_one_cluster_is_none_of_another() -> None:
    other = ClusterTopics("ours-2")
    for topic, role, do in product([spec.name for spec in other.specs()], Role, Do):
        assert not may(role, do, topic)


def test_transactions_belong_to_those_who_deliver() -> None:
    ids = [(one.role, one.name) for one in of_job(JOB) if one.on is On.TRANSACTIONAL_ID]
    assert sorted(ids) == [
        (Role.CONTROLLER, f"{JOB.root}."),
        (Role.OPERATOR, JOB.transactional_id("replay")),
        (Role.WORKER, f"{JOB.root}."),
    ]


def test_users_topics_are_read_and_written_as_a_person_says() -> None:
    rights = of_users_topics(["orders", "clicks-*"], ["totals"])
    assert {role for role in Role if may(role, Do.READ, "clicks-eu", rights)} == EVERYBODY - {
        Role.RECOVERY,
        Role.CONSOLE,
    }
    assert {role for role in Role if may(role, Do.WRITE, "totals", rights)} == {Role.WORKER}
    assert {role for role in Role if may(role, Do.WRITE, "orders", rights)} == {Role.OPERATOR}
    assert not any(may(role, Do.READ, "orders-of-others", rights) for role in Role)


def test_the_console_reads_and_nothing_else() -> None:
    """It shows rows of results; of what jobs read it knows the ends alone."""
    users = of_users_topics(["orders"], ["totals"])
    own = [one for one in RIGHTS + users if one.role is Role.CONSOLE]
    assert {one.do for one in own} == {Do.READ, Do.DESCRIBE, Do.DESCRIBE_CONFIGS}
    assert {one.on for one in own} == {On.TOPIC, On.GROUP}
    assert all(may(Role.CONSOLE, Do.READ, topic) for topic in every_topic(JOB))
    assert may(Role.CONSOLE, Do.READ, "totals", users)
    assert not may(Role.CONSOLE, Do.READ, "orders", users)


def test_a_right_is_an_acl_for_the_user_of_the_role() -> None:
    one = Right(Role.WORKER, On.TOPIC, f"{JOB.root}.data.", Do.WRITE, begins=True)
    made = binding("ours", one)
    assert (made.principal, made.host, made.name) == (f"User:{user('ours', Role.WORKER)}", "*", one.name)
    assert (made.resource_pattern_type, made.operation) == (ResourcePatternType.PREFIXED, AclOperation.WRITE)
    assert command("ours", one) == (
        "--add --allow-principal User:ours-worker --operation Write --topic 'ours.flights.7-abcdef.data.' "
        "--resource-pattern-type prefixed"
    )
    assert [binding("ours", right) for right in RIGHTS], "each has one"
