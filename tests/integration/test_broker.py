"""The embedded broker starts, keeps what it acknowledged through a crash, and never outlives who started it."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.services.node.kafka import broker as broker_module
from holdfast.services.node.kafka.broker import BrokerFailed, BrokerRunning, EmbeddedKafka
from holdfast.services.node.kafka.fence import is_fenced
from tests.support.kafka import create_topic, read, running_kafka, write
from tests.support.processes import parent_of_one

pytestmark = [pytest.mark.kafka, pytest.mark.session_broker]

DEADLINE_S = 60.0
VALUES = [b"%d" % i for i in range(100)]
HALF = "half"
PARENT = """
import signal, sys
from pathlib import Path
from holdfast.services.node.kafka.broker import EmbeddedKafka

broker = EmbeddedKafka(Path(sys.argv[1]))
broker.start()
print(broker.pid, flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """Its first start finds what one that was cut short has left."""
    directory = tmp_path_factory.mktemp("kafka")
    (directory / "data").mkdir()
    (directory / "data" / "meta.properties").write_text(HALF)
    with running_kafka(directory) as broker:
        yield broker


@pytest.fixture
def broker(started: EmbeddedKafka) -> EmbeddedKafka:
    """One that runs, whatever the test before has done to it."""
    if not started.running:
        started.start()
    return started


def test_the_session_shares_a_broker(kafka: str) -> None:
    create_topic(kafka, "shared")
    write(kafka, "shared", VALUES)
    assert read(kafka, "shared", len(VALUES)) == VALUES


def test_a_first_start_that_was_cut_short_is_begun_again(broker: EmbeddedKafka) -> None:
    create_topic(broker.bootstrap_servers, "fresh")
    assert (broker.data_dir / "data" / "meta.properties").read_text() != HALF


def test_acknowledged_records_survive_a_kill_and_a_stop_and_after_a_kill_the_former_broker_is_fenced(
    broker: EmbeddedKafka,
) -> None:
    """services/node/kafka/fence.py says what Kafka loses otherwise."""
    servers, said, kept = broker.bootstrap_servers, broker.data_dir / "logs" / "fence.out", list[bytes]()
    said.unlink(missing_ok=True)
    create_topic(servers, "kept")
    for end in (broker.stop, broker.kill):
        write(servers, "kept", VALUES)
        kept += VALUES
        end()
        assert not broker.running
        broker.start()
        assert broker.bootstrap_servers == servers
        assert read(servers, "kept", len(kept)) == kept
        if end == broker.stop:
            assert not said.exists(), "it had ended by itself"
        else:
            assert is_fenced(said.read_text().splitlines())
            said.unlink()


def test_two_run_side_by_side(kafka: str, broker: EmbeddedKafka) -> None:
    assert broker.bootstrap_servers != kafka
    for servers in (kafka, broker.bootstrap_servers):
        create_topic(servers, "side-by-side")
    write(broker.bootstrap_servers, "side-by-side", VALUES)
    write(kafka, "side-by-side", VALUES[:1])
    assert read(broker.bootstrap_servers, "side-by-side", len(VALUES)) == VALUES


def test_a_killed_parent_takes_its_broker_along_and_another_takes_over_the_data(tmp_path: Path) -> None:
    with parent_of_one(PARENT, str(tmp_path)) as (parent, orphan):
        servers = EmbeddedKafka(tmp_path).bootstrap_servers
        create_topic(servers, "kept")
        write(servers, "kept", VALUES)
        parent.send_signal(signal.SIGKILL)
        with running_kafka(tmp_path) as broker:
            assert orphan.ended_within(DEADLINE_S)
            assert read(broker.bootstrap_servers, "kept", len(VALUES)) == VALUES


def test_a_second_broker_on_the_same_data_is_refused(broker: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "FORMER_TIMEOUT_S", 0.1)
    with pytest.raises(BrokerRunning, match=str(broker.data_dir)):
        EmbeddedKafka(broker.data_dir).start()
    with pytest.raises(BrokerRunning):
        broker.start()
    assert broker.running


def test_a_port_that_was_asked_for_and_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerFailed, match=f"port {port}"):
            EmbeddedKafka(tmp_path, port=port).start()


def test_a_former_port_that_was_taken_meanwhile_is_replaced(broker: EmbeddedKafka) -> None:
    former = broker.port
    broker.stop()
    with socket.create_server(("127.0.0.1", former)):
        broker.start()
        assert broker.port != former


def test_a_start_that_fails_shows_the_log(broker: EmbeddedKafka) -> None:
    broker.stop()
    meta = broker.data_dir / "data" / "meta.properties"
    former = meta.read_text()
    meta.write_text("version=1\nnode.id=2\ncluster.id=other\n")
    with pytest.raises(BrokerFailed, match="node id 2"):
        broker.start()
    assert not broker.running
    meta.write_text(former)
