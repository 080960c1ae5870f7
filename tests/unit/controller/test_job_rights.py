"""Where rights are needed, those of a job are given before its topics are made, and taken once nobody needs them."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.schemas.rights import SERVICES, Role
from holdfast.schemas.topics import JobTopics
from holdfast.services.controller.conductor import KEPT_LOOK_MS
from tests.unit.controller.cluster import Cluster, job

WEEK_MS = 7 * 24 * 3_600_000


class Given:
    """Notes what is given and taken, and which topics of the job there were then. Implements JobRights."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.roles: dict[str, set[Role]] = {}
        self.topics_then: list[set[str]] = []

    def begin(self, job: JobTopics) -> None:
        self.topics_then.append({name for name in self._cluster.log.topics() if name.startswith(job.root)})
        self.roles[job.root] = set(Role)

    def end(self, job: JobTopics, roles: Iterable[Role]) -> None:
        self.roles[job.root] -= set(roles)


def ended(letters: int) -> tuple[Cluster, Given]:
    """A job that was cancelled when it had so many dead letters."""
    cluster = Cluster()
    given = Given(cluster)
    cluster.replicas["c0"].conductor.effects.rights = given
    cluster.submit(job())
    cluster.start("w1")
    cluster.pass_s(0.8)
    assert given.roles[cluster.names().root] == set(Role), "while it runs"
    for _ in range(letters):
        cluster.append(cluster.names().dead_letters, b"{}")
    cluster.command("cancel")
    cluster.pass_s(0.5)
    return cluster, given


def test_rights_come_before_the_topics_and_go_with_them() -> None:
    cluster, given = ended(letters=0)
    assert given.topics_then[0] == set()
    assert given.roles == {cluster.names().root: set()}


def test_a_person_may_still_send_dead_letters_back_and_later_nobody_may_do_anything() -> None:
    cluster, given = ended(letters=2)
    assert given.roles == {cluster.names().root: set(Role) - set(SERVICES)}
    cluster.now_ms += WEEK_MS + KEPT_LOOK_MS
    cluster.pass_s(0.2)
    assert set(cluster.job_topics()) == set()
    assert given.roles == {cluster.names().root: set()}
