"""A cluster as a user's own tests start one: Kafka by testcontainers, services from the images, a job by a record.

Needs a Docker engine. testcontainers removes what a killed test leaves by a container of its own, Ryuk, which
TESTCONTAINERS_RYUK_DISABLED=true switches off.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer
from testcontainers.community.kafka import KafkaContainer
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network
from testcontainers.core.wait_strategies import HealthcheckWaitStrategy

from bench.compose.project import PATIENCE_S, Project, no_engine
from bench.failover.observer import Observer
from holdfast.schemas.topics import ClusterTopics
from holdfast.services.log.seal.secret import SECRET
from holdfast.services.node.members.service import Service
from tests.campaign.jobs import PROTECTED
from tests.support.cluster import Cluster
from tests.support.containers import build
from tests.support.running_job import RunningJob
from tests.support.struck import calm

pytestmark = [
    pytest.mark.docker,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    # In each run: test_containers.py kills containers of the same images under a job that is exact,
    # struck/test_seal.py has a stranger's records.
    pytest.mark.long,
]

ALIAS = "kafka"
SERVICES = {"c1": Service.CONTROLLER, "r1": Service.RECOVERY, "w1": Service.WORKER, "w2": Service.WORKER}
"""By HOLDFAST_HOST, which begins a process's name."""
ONE_REPLICA = {
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
}
"""What testcontainers leaves at three, so that nobody could begin a transaction."""
START_S, LOAD = 180, 20


class Started(Cluster):
    """services: the containers, by host."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(ClusterTopics(), PATIENCE_S)
        self.bootstrap_servers = bootstrap_servers
        self.services: dict[str, DockerContainer] = {}

    def container_of(self, worker: str) -> DockerContainer:
        return self.services[worker.partition("-")[0]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    if why := no_engine():
        pytest.skip(why)
    build(Project(tmp_path_factory.mktemp("images"), "compose.small.yaml"))
    secret = secrets.token_hex(32)
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv(SECRET, secret)
        network = stack.enter_context(Network())
        kafka = KafkaContainer().with_kraft().with_network(network).with_network_aliases(ALIAS)
        kafka.with_envs(**ONE_REPLICA)
        kafka.with_kwargs(user="root")  # it edits files of its image, which not every build lets the image's user do
        kafka.start(timeout=START_S)
        stack.callback(kafka.stop)
        made = Started(kafka.get_bootstrap_server())
        for host, service in SERVICES.items():
            made.services[host] = stack.enter_context(service_container(host, service, secret, network))
        made.connect(made.bootstrap_servers)
        stack.callback(made.close)
        yield made


def service_container(host: str, service: Service, secret: str, network: Network) -> DockerContainer:
    """Healthy once it is started; without a volume, on a root that it cannot write to."""
    made = DockerContainer(f"holdfast-{service}").with_network(network).waiting_for(_healthy())
    made.with_envs(HOLDFAST_KAFKA=f"{ALIAS}:9092", HOLDFAST_HOST=host, HOLDFAST_ZONE=host, **{SECRET: secret})
    made.with_tmpfs_mount("/tmp", "size=64m").with_tmpfs_mount("/var/lib/holdfast", "size=256m,mode=1777")
    return made.with_kwargs(read_only=True, cap_drop=["ALL"], security_opt=["no-new-privileges:true"])


def _healthy() -> HealthcheckWaitStrategy:
    strategy = HealthcheckWaitStrategy()
    strategy.with_startup_timeout(START_S)
    return strategy


@pytest.fixture(scope="module")
def running(cluster: Started) -> RunningJob:
    job = RunningJob(cluster, calm(PROTECTED, 4), "counts")
    job.submit()
    return job


def test_a_job_that_was_submitted_by_a_record_continues_without_the_container_that_led_it(
    cluster: Started, running: RunningJob
) -> None:
    with Observer(cluster.log, cluster.topics) as observer:
        running.until(lambda: observer.workers() == 2 and observer.protected(), "protected", load=LOAD)
        (unit, *_) = [unit.name for unit in cluster.plan(running.name).units]
        victim = observer.leader_of(running.name, unit)
        cluster.container_of(victim).get_wrapped_container().kill()
        running.until(lambda: observer.leader_of(running.name, unit) != victim, "another one leads", load=LOAD)
    running.feed(LOAD)
    running.until(running.caught_up, "all is processed")


def test_a_strangers_records_on_topics_of_the_cluster_are_reported_and_change_nothing(
    cluster: Started, running: RunningJob
) -> None:
    """Kafka lets anybody write here; what a stranger lacks is the cluster's secret."""
    own = cluster.topics_of(running.name)
    topics = {own.cuts, own.checkpoints, cluster.topics.heartbeats, cluster.topics.assignments}
    stranger = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for topic in topics:
        stranger.produce(topic, b'{"kind": "pause", "offset": 99}', partition=0)
    assert stranger.flush(PATIENCE_S) == 0
    running.feed(LOAD)
    running.until(running.caught_up, "all is processed")

    def reported() -> bool:
        return {event.topic for event in cluster.events("record-refused")} == topics

    running.until(reported, "every one is reported", load=LOAD)


def test_after_that_every_row_is_there_once(cluster: Started, running: RunningJob) -> None:
    running.drain()
    running.await_end()
    report = running.replayed()
    assert report.rows.results > 0
    assert report.exact, report
    assert running.problems() == []
