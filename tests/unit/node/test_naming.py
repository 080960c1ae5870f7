"""Several supervisors on one Kafka: names that begin with the host, and what becomes of two hosts of one name."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from holdfast.schemas import heartbeats
from holdfast.schemas.heartbeats import Exit, Heartbeat, HeartbeatRecord
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.log.memory import MemoryLog
from holdfast.services.node.members import clashes, naming
from holdfast.services.node.members.clashes import (
    CLAIM_MS,
    Clash,
    Neighbours,
    claim,
    living_stranger,
    look_around,
    running_at,
)
from holdfast.services.node.members.naming import Naming, machine_name
from holdfast.services.node.members.readiness import Readiness
from holdfast.services.node.settings import Settings
from holdfast.services.node.supervisor import Supervisor

TOPICS = ClusterTopics()
HERE, THERE = "m1:/srv/holdfast#1", "m2:/srv/holdfast#2"


def named(home: Path, **settings: object) -> list[str]:
    given = {"home": home, "recoveries": 2, **settings}
    return [member.name for member in Supervisor(Settings(**given), workers=2).members]  # type: ignore[arg-type]


def test_beside_an_embedded_kafka_a_worker_is_called_worker_1(tmp_path: Path) -> None:
    assert named(tmp_path, host="a") == ["controller", "recovery-1", "recovery-2", "worker-1", "worker-2"]


def test_on_a_kafka_that_others_share_every_name_begins_with_the_host(tmp_path: Path) -> None:
    names = named(tmp_path, host="db1", kafka="k:1")
    assert names == ["db1-controller", "db1-recovery-1", "db1-recovery-2", "db1-worker-1", "db1-worker-2"]


def test_the_host_is_the_machine_unless_it_is_given_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "DB-1.example.ORG")
    assert named(tmp_path, kafka="k:1")[0] == "db-1-example-org-controller"


def test_a_machine_with_a_long_name_keeps_a_unique_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = set()
    for last in "ab":
        monkeypatch.setattr(socket, "gethostname", lambda last=last: "x" * 60 + last)
        made.add(machine_name())
    assert len(made) == 2
    assert {len(name) for name in made} == {naming.MAX_HOST}


def test_a_machine_whose_name_has_nothing_to_offer_is_called_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "..")
    assert machine_name() == "host"


@pytest.mark.parametrize("host", ["A", "a b", "-a", "a/b", "a" * 64])
def test_a_host_that_can_be_no_name_is_refused(host: str) -> None:
    with pytest.raises(ValidationError):
        Settings(host=host)


def test_the_zone_is_the_host_where_kafka_is_shared() -> None:
    assert [Naming("").zone(number) for number in (1, 2, 3, 4)] == ["zone-1", "zone-2", "zone-3", "zone-1"]
    assert {Naming("a").zone(number) for number in (1, 2, 3)} == {"a"}
    assert {Naming("a", "rack-7").zone(1), Naming("", "rack-7").zone(1)} == {"rack-7"}


def test_names_of_a_host_whose_name_begins_alike_are_not_ours() -> None:
    ours = Naming("a")
    assert ours.is_ours("a-worker-1")
    assert ours.is_ours("a-spark-12")
    assert not ours.is_ours("a-b-worker-1")
    assert not ours.is_ours("worker-1")
    assert not ours.is_ours("a-worker-x")


class Around:
    """Heartbeats on a log in memory, and what host `a` makes of them; time is stopped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(clashes, "LISTEN_S", 0.05)
        monkeypatch.setattr(clashes, "LISTEN_BEATS", 0)
        self.log = MemoryLog(lambda: 10_000)
        self.log.create(TOPICS.specs())
        self.neighbours = Neighbours(Naming("a"), HERE)

    def write(self, record: HeartbeatRecord) -> None:
        self.log.appender("w").append(Partition(TOPICS.heartbeats, 0), heartbeats.encode(record))

    def stranger(self) -> Heartbeat | None:
        return living_stranger(self.log, TOPICS, self.neighbours, 100)


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> Around:
    return Around(monkeypatch)


def beat(worker: str, incarnation: str, address: str) -> Heartbeat:
    return Heartbeat(worker, incarnation, 10_000, pid=7, address=address)


class Goes:
    """A worker that sends another heartbeat as soon as anybody listens."""

    def __init__(self, around: Around, record: Heartbeat, monkeypatch: pytest.MonkeyPatch) -> None:
        around.write(record)
        own = around.log.reader

        def reader(name: str) -> object:
            found = own(name)
            around.write(record)
            return found

        monkeypatch.setattr(around.log, "reader", reader)


def test_a_living_worker_of_our_name_elsewhere_is_found(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    Goes(around, beat("a-worker-1", "5", THERE), monkeypatch)
    found = around.stranger()
    assert found is not None
    said = str(Clash(running_at(found), "a", 9, HERE))
    assert f"process 7 at {THERE}" in said
    assert f"process 9 at {HERE}" in said
    assert "HOLDFAST_HOST" in said


def test_a_heartbeat_of_an_older_incarnation_is_no_stranger(around: Around) -> None:
    around.write(beat("a-worker-1", "5", THERE))
    around.write(beat("a-worker-1", "3", THERE))
    assert around.stranger() is None
    assert around.neighbours.incarnations == {"a-worker-1": "5"}


def test_our_own_former_run_and_other_hosts_are_no_strangers(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    around.write(beat("b-worker-1", "5", THERE))
    Goes(around, beat("a-worker-1", "5", HERE), monkeypatch)
    assert around.stranger() is None


def test_a_worker_with_an_exit_notice_is_not_waited_for(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    Goes(around, beat("a-worker-1", "5", THERE), monkeypatch)
    around.write(Exit("a-worker-1", "5", 10_000))
    assert around.stranger() is None


def test_an_older_one_that_lives_beside_our_own_newer_run_is_found(
    around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    around.write(beat("a-worker-1", "7", HERE))
    Goes(around, beat("a-worker-1", "5", THERE), monkeypatch)
    assert around.stranger() is not None


def test_a_clock_that_goes_ahead_hides_nobody(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 10.0**9)
    Goes(around, beat("a-worker-1", "5", THERE), monkeypatch)
    assert around.stranger() is not None


def holder(around: Around, address: str, now_ms: int = 10_000) -> str:
    neighbours = Neighbours(Naming("a"), address)
    look_around(around.log, TOPICS, neighbours)
    return neighbours.holder(now_ms)


def test_the_first_claim_in_the_log_has_the_names_if_two_start_together(around: Around) -> None:
    around.write(Exit("a-worker-1", "0", 10_000))
    assert holder(around, HERE) == ""
    around.write(claim("b-worker-1", "m3:/d#3", 10_000))
    around.write(claim("a-worker-1", THERE, 10_000))
    around.write(claim("a-worker-1", HERE, 10_000))
    around.write(claim("a-worker-1", THERE, 10_001))
    assert holder(around, HERE) == holder(around, THERE) == THERE


def test_a_claim_that_is_given_back_or_old_counts_no_more(around: Around) -> None:
    around.write(claim("a-worker-1", THERE, 10_000))
    around.write(claim("a-worker-1", HERE, 10_000 + CLAIM_MS))
    assert holder(around, HERE, 10_000 + CLAIM_MS) == HERE
    around.write(claim("a-worker-1", THERE, 10_001 + CLAIM_MS))
    assert holder(around, HERE, 10_001 + CLAIM_MS) == HERE, "it has lost its place"
    around.write(claim("a-worker-1", HERE, 10_001 + CLAIM_MS, back=True))
    assert holder(around, HERE, 10_001 + CLAIM_MS) == THERE


def test_a_claim_made_at_the_same_time_is_heard_before_the_start_is_over(around: Around) -> None:
    readiness = Readiness(around.log, TOPICS, "1-x", around.neighbours)
    around.write(beat("a-worker-1", "5", HERE))
    readiness.poll(0)
    assert readiness.stranger is None
    around.write(other := beat("a-worker-1", "6", THERE))
    readiness.poll(0)
    assert readiness.stranger == other


def test_the_address_says_machine_and_directory(tmp_path: Path) -> None:
    made = Supervisor(Settings(home=tmp_path, kafka="k:1"), workers=1)
    assert made.address.startswith(f"{socket.gethostname()}:{tmp_path}#")
