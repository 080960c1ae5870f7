"""Gives and revokes rights on Kafka: ACLs made of schemas/rights.py.

Source: docs/decisions/0076. Both need the right to alter the cluster. A person with this right gives the rights that
    all jobs share; the controller gives those of a job before it makes the job's topics. Brokers apply both in that
    order: a process that sees a topic may already use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from holdfast.schemas.rights import Do, On, Right, Role, of_job, user
from holdfast.schemas.topics import JobTopics
from holdfast.services.log.kafka.client import Cluster, error_of

PATIENCE_S = 20.0
"""Time-out of a request in seconds: no loop waits for the answer to a person's command or to an action of the
controller.
"""
ROUNDS = 8_192
"""Rounds of hashing a password, twice Kafka's minimum."""
_KINDS = {
    On.TOPIC: ResourceType.TOPIC,
    On.GROUP: ResourceType.GROUP,
    On.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
    On.CLUSTER: ResourceType.BROKER,
}
_OPERATIONS = {
    Do.READ: AclOperation.READ,
    Do.WRITE: AclOperation.WRITE,
    Do.CREATE: AclOperation.CREATE,
    Do.DELETE: AclOperation.DELETE,
    Do.DESCRIBE: AclOperation.DESCRIBE,
    Do.DESCRIBE_CONFIGS: AclOperation.DESCRIBE_CONFIGS,
    Do.ALTER: AclOperation.ALTER,
}


class Rights:
    """Rights of one cluster's roles.

    prefix: the cluster's prefix.
    """

    def __init__(self, bootstrap_servers: str, client_settings: Mapping[str, str], prefix: str) -> None:
        self._cluster = Cluster(bootstrap_servers, dict(client_settings))
        self._prefix = prefix
        self._admin: AdminClient = self._cluster.admin(f"{prefix}-rights")

    def give(self, rights: Iterable[Right]) -> None:
        """Gives rights; existing rights stay. Raises Retriable."""
        bindings = [binding(self._prefix, one) for one in rights]
        if bindings:
            self._settle("give rights", self._admin.create_acls(bindings, request_timeout=PATIENCE_S).values())

    def take(self, rights: Iterable[Right]) -> None:
        """Revokes rights; a right that does not exist is no error. Raises Retriable."""
        filters = [_filter(binding(self._prefix, one)) for one in rights]
        if filters:
            self._settle("take rights", self._admin.delete_acls(filters, request_timeout=PATIENCE_S).values())

    def set_passwords(self, passwords: Mapping[Role, bytes]) -> None:
        """Creates the users, or changes their passwords. Raises Retriable."""
        users: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(
                user(self._prefix, role), ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ROUNDS), password
            )
            for role, password in passwords.items()
        ]
        if users:
            asked = self._admin.alter_user_scram_credentials(users, request_timeout=PATIENCE_S)
            self._settle("set passwords", asked.values())

    def begin(self, job: JobTopics) -> None:
        """Gives the rights of a job, before its topics are made. Raises Retriable."""
        self.give(of_job(job))

    def end(self, job: JobTopics, roles: Iterable[Role]) -> None:
        """Revokes the job's rights of these roles, once they no longer need the rest of the job. Raises Retriable."""
        ending = set(roles)
        self.take(one for one in of_job(job) if one.role in ending)

    def _settle(self, what: str, asked: Iterable[Future[Any]]) -> None:
        for future in asked:
            try:
                future.result(PATIENCE_S + 0.5)
            except KafkaException as error:
                raise self._cluster.unanswered(what, error_of(error).str()) from error
            except TimeoutError as error:
                raise self._cluster.unanswered(what, "no answer") from error


def binding(prefix: str, right: Right) -> AclBinding:
    """The ACL of a right of one of the cluster's users, from any host."""
    return AclBinding(
        _KINDS[right.on],
        right.name,
        ResourcePatternType.PREFIXED if right.begins else ResourcePatternType.LITERAL,
        f"User:{user(prefix, right.role)}",
        "*",
        _OPERATIONS[right.do],
        AclPermissionType.ALLOW,
    )


def command(prefix: str, right: Right) -> str:
    """The arguments of kafka-acls.sh that give a right of one of the cluster's users."""
    where = "--cluster" if right.on is On.CLUSTER else f"--{right.on} '{right.name}'"
    pattern = " --resource-pattern-type prefixed" if right.begins else ""
    operation = {Do.DESCRIBE_CONFIGS: "DescribeConfigs"}.get(right.do, right.do.capitalize())
    return f"--add --allow-principal User:{user(prefix, right.role)} --operation {operation} {where}{pattern}"


def _filter(one: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        one.restype, one.name, one.resource_pattern_type, one.principal, one.host, one.operation, one.permission_type
    )
