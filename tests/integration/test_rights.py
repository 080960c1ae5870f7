"""A cluster of which each service has a login and rights of its own, by TLS, on a Kafka that refuses everything else.

infra/security/certificates makes keys and passwords, `holdfast acls --apply` gives the rights; `holdfast serve` runs
the services. The job gives its rows, also when a worker is killed; then all that is forbidden is tried.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.failover.observer import Observer
from holdfast.schemas.plans import Ended
from holdfast.schemas.rights import Do, On, Right, Role, of_cluster, of_job, user
from holdfast.schemas.topics import ClusterTopics, JobTopics, TopicSpec
from holdfast.services.kernel.errors import HoldfastError, Retriable
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.kafka.requests import NotAllowed
from holdfast.services.log.kafka.rights import Rights
from holdfast.services.log.seal.secret import SECRET
from holdfast.services.node.kafka.broker import EmbeddedKafka
from holdfast.services.node.machine.ports import choose_pair
from holdfast.services.view.door import Door, Whereabouts
from tests.support.cluster import Cluster
from tests.support.commands import HOLDFAST, run
from tests.support.processes import Watched
from tests.support.running_job import RunningJob
from tests.support.shown_job import show
from tests.support.struck import tolerant

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SECURED = """
listeners=CLIENTS://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},LOGINS://127.0.0.1:{logins}
advertised.listeners=CLIENTS://127.0.0.1:{port},LOGINS://127.0.0.1:{logins}
listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGINS:SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.logins.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.logins.ssl.keystore.type=PEM
listener.name.logins.ssl.keystore.location={keys}/broker.pem
listener.name.logins.ssl.truststore.type=PEM
listener.name.logins.ssl.truststore.location={keys}/ca.pem
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
connections.max.idle.ms=2592000000
"""
"""Whoever comes to the broker's own listener is the administrator."""
CERTIFICATES = Path(__file__).parents[2] / "infra" / "security" / "certificates"
PREFIX = "ours"
TOPICS = ClusterTopics(PREFIX)
JOB = "counts"
SERVICES = {"c1": Role.CONTROLLER, "r1": Role.RECOVERY, "w1": Role.WORKER, "w2": Role.WORKER}
LOAD = 20
FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


class Guarded(EmbeddedKafka):
    """Has a listener for users, who may do what they have rights for."""

    def __init__(self, directory: Path, keys: Path) -> None:
        super().__init__(directory)
        self.logins, self.keys = choose_pair(), keys

    def _fill(self, port: int, *names: str) -> None:
        super()._fill(port, *names)
        if "server.properties" in names:
            file = self.data_dir / "server.properties"
            ports = {"port": port, "controller": port + 1, "logins": self.logins}
            file.write_text(file.read_text() + SECURED.format(**ports, keys=self.keys))

    @property
    def for_users(self) -> str:
        return f"127.0.0.1:{self.logins}"


class Site(Cluster):
    """The services, each a supervisor with a directory and a login of its own; the test itself is the administrator."""

    def __init__(self, folder: Path, kafka: Guarded, cleanup: ExitStack) -> None:
        super().__init__(TOPICS)
        self.folder, self.kafka = folder, kafka
        self.passwords = {role: (kafka.keys / "users" / role).read_text().strip() for role in Role}
        self._secret = (kafka.keys / "cluster.secret").read_text().strip()
        self._cleanup = cleanup
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def login(self, role: Role) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
            "ssl.ca.location": str(self.kafka.keys / "ca.pem"),
            "sasl.username": user(PREFIX, role), "sasl.password": self.passwords[role],
        }  # fmt: skip

    def environment(self, role: Role) -> dict[str, str]:
        client = {f"HOLDFAST_KAFKA_CLIENT_{k.upper().replace('.', '_')}": v for k, v in self.login(role).items()}
        ours = {"HOLDFAST_KAFKA": self.kafka.for_users, "HOLDFAST_CLUSTER": PREFIX, SECRET: self._secret}
        return {**os.environ, **client, **ours}

    def give(self) -> None:
        """As docs/operations.md says."""
        users = str(self.kafka.keys / "users")
        run(
            self.folder, "acls", "--apply", "--passwords", users, "--reads", f"{JOB}-*", "--writes", f"{JOB}-*",
            "--kafka", self.kafka.bootstrap_servers, environment={"HOLDFAST_CLUSTER": PREFIX},
        )  # fmt: skip

    def start(self) -> None:
        """The controller first, which alone may make topics; others wait for it, but not for ever."""
        for host, role in SERVICES.items():
            if role is not Role.CONTROLLER:
                self.until(lambda: TOPICS.events in self._topics(), "the controller makes the topics")
            own = {"HOLDFAST_HOST": host, "HOLDFAST_HOME": str(self.folder / host), "HOLDFAST_ACLS": "true"}
            log = self._cleanup.enter_context((self.folder / f"{host}.log").open("wb"))
            self.running[host] = subprocess.Popen(
                [str(HOLDFAST), "serve", role], env={**self.environment(role), **own}, stdout=log, stderr=log
            )
        os.environ[SECRET] = self._secret
        self._cleanup.callback(os.environ.pop, SECRET)
        self.connect(self.kafka.bootstrap_servers)

    def stop(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            process.wait(60)

    def worker(self, name: str) -> Watched:
        """The process of a worker."""
        out, _ = run(self.folder, "workers", "--json", "--kafka", self.kafka.for_users,
                     environment=self.environment(Role.OPERATOR))  # fmt: skip
        import json

        return Watched(next(one["pid"] for one in json.loads(out) if one["worker"] == name))

    def logs(self) -> str:
        return "\n".join(f"== {file.name}\n{file.read_text()[-3000:]}" for file in sorted(self.folder.glob("*.log")))

    def _topics(self) -> dict[str, int]:
        log = KafkaLog(self.kafka.bootstrap_servers, {}, "look")
        try:
            return log.topics()
        finally:
            log.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("rights")
    subprocess.run([str(CERTIFICATES), str(folder / "keys"), "kafka"], check=True, capture_output=True)
    kafka = Guarded(folder / "kafka", folder / "keys")
    kafka.start()
    with ExitStack() as cleanup:
        cleanup.callback(kafka.stop)
        made = Site(folder, kafka, cleanup)
        made.give()
        try:
            made.start()
            yield made
        except BaseException:
            print(made.logs())
            raise
        finally:
            made.stop()
        made.close()


@pytest.fixture(scope="module")
def running(site: Site) -> RunningJob:
    job = RunningJob(site, tolerant("hybrid"), f"{JOB}-job")
    job.submit()
    return job


def names(site: Site, job: RunningJob) -> JobTopics:
    return site.topics_of(job.name)


def test_a_job_gives_its_rows_and_is_taken_over(site: Site, running: RunningJob) -> None:
    with Observer(site.log, site.topics) as observer:

        def protected() -> bool:
            running.look()
            return running.batch > 0 and observer.workers() == 2 and observer.protected()

        running.until(protected, "every unit has its standby", load=LOAD)
        leader = observer.leader_of(running.name, site.plan(running.name).units[0].name)
        site.worker(leader).kill()
        running.until(
            lambda: [e for e in site.events("unit-active") if e.job == running.name and e.worker not in ("", leader)],
            "another worker leads",
            load=LOAD,
        )
        running.until(protected, "every unit has its standby again", load=LOAD)
    running.until(running.caught_up, "all is taken in")
    assert not [event for event in site.events("record-refused")]


def test_kafka_refuses_writes_that_a_role_has_no_right_to(site: Site, running: RunningJob) -> None:
    own = names(site, running)
    made = set(site.log.topics())
    topics = [name for name in made if site.topics.owner(name) in ("cluster", f"{own.job}@{own.generation}")]
    assert {own.cuts, own.checkpoints, own.delivered, TOPICS.assignments, TOPICS.plans} <= set(topics)
    rights = of_cluster(TOPICS) + of_job(own)
    tried = 0
    for role in Role:
        forbidden = sorted(topic for topic in topics if not allowed(rights, role, Do.WRITE, topic))
        assert forbidden
        codes = written(site, role, forbidden)
        assert codes == dict.fromkeys(forbidden, KafkaError.TOPIC_AUTHORIZATION_FAILED), role
        tried += len(codes)
    assert tried >= 30


def test_the_console_shows_the_job_by_a_login_that_writes_nothing(site: Site, running: RunningJob) -> None:
    log = KafkaLog(site.kafka.for_users, site.login(Role.CONSOLE), "console")
    where = Whereabouts(site.folder, site.kafka.for_users, PREFIX, local=False)
    with pytest.raises(HoldfastError, match=r"uthor|does not let"):
        show(Door(log, TOPICS, log.topics(), where), running.name)
    log.close()


def test_the_controller_alone_makes_and_deletes_topics(site: Site, running: RunningJob) -> None:
    own = names(site, running)
    for role in set(Role) - {Role.CONTROLLER}:
        admin = AdminClient({"bootstrap.servers": site.kafka.for_users, **site.login(role)})
        (making,) = admin.create_topics([NewTopic(f"{PREFIX}.of-mine", 1, 1)]).values()
        refused(making)
        (deleting,) = admin.delete_topics([own.progress]).values()
        refused(deleting)
    assert own.progress in site.log.topics()


def test_transactions_of_a_unit_are_its_workers_and_the_controllers(site: Site, running: RunningJob) -> None:
    own = names(site, running)
    unit = next(unit.name for unit in site.plan(running.name).units if unit.delivers)
    for role in (Role.RECOVERY, Role.SPARK, Role.OPERATOR, Role.CONSOLE):
        log = KafkaLog(site.kafka.for_users, site.login(role), "thief")
        with pytest.raises(Retriable, match="uthorization"):
            log.transactor(own.transactional_id(unit)).start()
        log.close()


def test_nobody_without_a_login_or_with_a_wrong_one_gets_in(site: Site) -> None:
    wrong, elsewhere = {"sasl.password": "guessed"}, {"ssl.ca.location": str(site.kafka.keys / "admin.crt")}
    for settings in ({}, site.login(Role.WORKER) | wrong, site.login(Role.WORKER) | elsewhere):
        log = KafkaLog(site.kafka.for_users, settings, "stranger")
        with pytest.raises(Retriable):
            log.topics()
        log.close()


def test_a_user_who_may_not_create_topics_gets_an_error_if_nobody_else_creates_them(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.services.log.kafka.log.SETTLED_S", 1.0)
    log = KafkaLog(site.kafka.for_users, site.login(Role.WORKER), "w")
    with pytest.raises(NotAllowed, match=f"does not let user '{PREFIX}-worker' create .* Nor has another process"):
        log.create([TopicSpec(f"{PREFIX}.not-there")])
    with pytest.raises(NotAllowed, match="describe of-others"):
        log.describe(["of-others"])
    absent = f"{JOB}-not-there"
    assert log.describe([absent]) == {}, "it looks for 3 s: Kafka's controller tells this user nothing"
    log.close()


def test_a_strangers_record_on_a_topic_that_it_may_write_changes_nothing(site: Site, running: RunningJob) -> None:
    """With a stolen login of a worker, and without the cluster's secret."""
    own = names(site, running)
    before = len(site.events("record-refused"))
    for topic in (own.cuts, own.checkpoints, own.progress, TOPICS.heartbeats):
        producer = Producer({"bootstrap.servers": site.kafka.for_users, **site.login(Role.WORKER)})
        producer.produce(topic, b'{"kind": "pause", "offset": 99}', partition=0)
        assert producer.flush(30) == 0
    running.feed(LOAD)
    running.until(running.caught_up, "all is taken in")
    site.until(lambda: len(site.events("record-refused")) > before, "it is reported")
    assert {event.topic for event in site.events("record-refused")} <= {
        own.cuts, own.checkpoints, own.progress, TOPICS.heartbeats,
    }  # fmt: skip


def test_at_the_end_rows_are_exact_and_the_rights_are_taken_back(site: Site, running: RunningJob) -> None:
    own = names(site, running)
    running.drain()
    running.await_end()
    report = running.replayed()
    assert report.rows.results > 0
    assert report.exact, report
    assert running.problems() == []
    assert site.decided(running.name, Ended)
    refused_now = written(site, Role.WORKER, [own.cuts, own.dead_letters])
    assert set(refused_now.values()) <= {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART}
    assert KafkaError.TOPIC_AUTHORIZATION_FAILED in refused_now.values()


def test_rights_are_given_twice_and_taken_once(site: Site) -> None:
    door, job = Rights(site.kafka.bootstrap_servers, {}, PREFIX), TOPICS.job("other", "1-aaaaaa")
    door.begin(job)
    door.begin(job)
    door.end(job, Role)
    door.end(job, Role)
    log = KafkaLog(site.kafka.bootstrap_servers, {}, "admin")
    log.create([TopicSpec(job.cuts)])
    assert written(site, Role.WORKER, [job.cuts]) == {job.cuts: KafkaError.TOPIC_AUTHORIZATION_FAILED}
    log.delete([job.cuts])
    log.close()


def allowed(rights: list[Right], role: Role, do: Do, topic: str) -> bool:
    mine = [one for one in rights if (one.role, one.on, one.do) == (role, On.TOPIC, do)]
    return any(topic.startswith(one.name) if one.begins else topic == one.name for one in mine)


def written(site: Site, role: Role, topics: list[str]) -> dict[str, int | None]:
    """What Kafka says to a record of that user, by topic; None: it takes it."""
    producer = Producer({
        "bootstrap.servers": site.kafka.for_users, **site.login(role), "message.timeout.ms": 20_000,
    })  # fmt: skip
    found: dict[str, int | None] = {}

    def answered(error: KafkaError | None, message: object) -> None:
        found[message.topic()] = None if error is None else error.code()  # type: ignore[attr-defined]

    for topic in topics:
        producer.produce(topic, b"{}", partition=0, on_delivery=answered)
    producer.flush(60)
    return found


def refused(future: object) -> None:
    with pytest.raises(KafkaException) as error:
        future.result(30)  # type: ignore[attr-defined]
    assert error.value.args[0].code() in FORBIDDEN
