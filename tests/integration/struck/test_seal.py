"""A stranger writes to every topic of a cluster that has a secret, while a worker is killed: every row is exact.

Behind all tests of this folder, which then read nothing of that.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import PositionGone, Retriable
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.protocol import Message
from holdfast.services.log.seal.secret import SECRET, SECRET_FILE
from holdfast.services.recovery.core.unit.table.moves import Move
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.support.commands import run
from tests.support.struck import Struck, StruckJob, running, tolerant

pytestmark = [pytest.mark.kafka]
UNIT = "totals-0"
KEPT = 20
"""Of the last records of a partition, for forgeries."""
PAUSE_S = 0.3
"""Between two rounds of forgeries: without it the stranger takes a processor."""


class Stranger:
    """Writes to Kafka as anybody can: noise, true records with a byte changed, without their seal, or elsewhere."""

    def __init__(self, servers: str, struck: Struck) -> None:
        self._log, self._names = KafkaLog(servers, {}, "stranger"), struck.cluster.topics
        self._appender = self._log.appender("stranger")
        self._chance = random.Random(15)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="stranger")
        self.written: dict[str, int] = {}
        self.failed: list[Exception] = []

    @contextmanager
    def at_work(self) -> Iterator[Stranger]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join()
            self._appender.close()
            self._log.close()

    def _work(self) -> None:
        try:
            while not self._stop.wait(PAUSE_S):
                with suppress(Retriable):
                    self._round()
        except Exception as error:
            self.failed.append(error)

    def _round(self) -> None:
        """One forgery of each kind for every partition that the cluster alone writes."""
        found = {Partition(topic, n) for topic, count in self._log.topics().items() for n in range(count)}
        sealed = sorted(one for one in found if self._names.sealed(one))
        true = {one: self._recent(one) for one in sealed}
        for partition in sealed:
            noise, keys = self._chance.randbytes(self._chance.randrange(300)), [one.key() for one in true[partition]]
            self._write(partition, noise, next(iter(keys), None) or b"noise", None)
            for message in true[partition]:
                self._forge(partition, message)
            elsewhere = self._chance.choice([one for one in sealed if one != partition])
            for message in true[elsewhere]:
                self._write(partition, message.value(), message.key() or b"moved", message.headers())
        self._appender.flush(30)

    def _recent(self, partition: Partition) -> Sequence[Message]:
        end = self._log.offsets([partition], "end")[partition]
        start = self._log.offsets([partition], "start")[partition]
        found: list[Message] = []
        with suppress(PositionGone):  # trimmed meanwhile
            found += self._log.scan(partition, max(start, end - KEPT))
        return self._chance.sample(found, min(2, len(found)))

    def _forge(self, partition: Partition, message: Message) -> None:
        value = bytearray(message.value() or b"\0")
        at = self._chance.randrange(len(value))
        value[at] ^= 1 << self._chance.randrange(8)
        self._write(partition, bytes(value), message.key(), message.headers())
        self._write(partition, message.value(), message.key(), None)

    def _write(
        self, partition: Partition, value: bytes | None, key: bytes | None, headers: Sequence[tuple[str, bytes]] | None
    ) -> None:
        self._appender.append(partition, value, key=key, headers=headers)
        self.written[partition.topic] = self.written.get(partition.topic, 0) + 1


def delivered(struck: Struck, job: StruckJob) -> bool:
    """Each unit with a sink has written its position."""
    cluster = struck.cluster
    topic, units = cluster.topics_of(job.name).delivered, cluster.plan(job.name).units
    places = [Partition(topic, unit.partition) for unit in units if unit.delivers]
    return min(cluster.log.offsets(places, "end").values()) > 0


def test_no_row_is_lost_doubled_or_wrong_while_a_stranger_writes_to_every_topic(struck: Struck) -> None:
    servers = struck.cluster.supervisor.cluster.bootstrap_servers
    with running(struck, tolerant("hybrid"), "besieged") as job:
        job.under_load(
            lambda: delivered(struck, job), "every sink has delivered: whose topic that is cannot be known before"
        )
        with Stranger(servers, struck).at_work() as stranger:
            primary, _, epoch = job.pair(UNIT)
            struck.kill(primary.worker)
            promoted = f"{Sign.PRIMARY_GONE.value}: {Move.PROMOTE.value}"
            job.under_load(lambda: struck.made(UNIT, epoch, promoted), "the secondary is promoted")
            job.under_load(struck.protected, "every unit is protected again")
            job.await_results()
            topics = struck.cluster.topics
            job.under_load(lambda: len(refusals(struck)) > 3, "refusals are reported")
            job.under_load(lambda: min(list(stranger.written.values())) > 10, "the stranger has written to each topic")
    assert stranger.failed == []
    assert {
        topics.plans,
        topics.assignments,
        topics.heartbeats,
        topics.events,
        topics.status,
    } <= stranger.written.keys()
    said = " ".join(one.detail for one in refusals(struck))
    for topic in (topics.assignments, topics.heartbeats, topics.plans):
        assert f"{topic}[0] offset" in said


def refusals(struck: Struck) -> list[Event]:
    return [one for one in struck.events() if one.kind == "record-refused"]


def test_a_command_or_a_process_with_another_secret_says_so(struck: Struck, tmp_path: Path) -> None:
    described = struck.cluster.supervisor.cluster
    elsewhere, words = tmp_path / "elsewhere", ("list", "--kafka", described.bootstrap_servers)
    _, said = run(elsewhere, *words, status=1, environment={SECRET_FILE: "", SECRET: "quite another secret"})
    assert "this process has another one" in " ".join(said.split())
    _, said = run(elsewhere, *words, status=1, environment={SECRET_FILE: "", SECRET: ""})
    assert "this process has none" in " ".join(said.split())
    run(elsewhere, *words)
    run(Path(described.data_dir), "list", environment={SECRET_FILE: "", SECRET: ""})


def test_up_on_a_kafka_of_others_asks_for_a_secret_and_never_shows_it(struck: Struck, tmp_path: Path) -> None:
    words = ("up", "--detach", "--workers", "0", "--kafka", struck.cluster.supervisor.cluster.bootstrap_servers)
    _, said = run(tmp_path, *words, status=2, environment={SECRET_FILE: "", SECRET: ""})
    assert "openssl rand -hex 32" in said
    secret = "shown to nobody at all"
    shown, _ = run(tmp_path, "settings", environment={SECRET_FILE: "", SECRET: secret})
    assert secret not in shown
