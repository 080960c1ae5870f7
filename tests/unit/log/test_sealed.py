"""A stranger's record is no record: whatever it copies, and wherever it puts it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.schemas.events import Event
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.kernel.errors import Torn
from holdfast.services.log.memory import STRETCH, MemoryLog
from holdfast.services.log.protocol import Chunk, Message, Rows
from holdfast.services.log.seal.seal import HEADER, Fault, Keyring
from holdfast.services.log.seal.sealed import SealedLog

TOPICS = ClusterTopics()
JOB = TOPICS.job("flights", "7-abcdef")
DATA, CUTS = Partition(JOB.data("count", 0), 0), Partition(JOB.cuts, 0)
DELIVERED = Partition(JOB.delivered, 0)
OURS, OTHERS = "the secret of this cluster", "the secret of another cluster"

parts = st.one_of(st.none(), st.binary(max_size=40))
headers = st.one_of(st.none(), st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=8)), max_size=3))


class Cluster:
    """A log, the cluster's door to it, and a stranger's, which has no seal."""

    def __init__(self, *secrets: str, unsealed: bool = False) -> None:
        self.reports: list[Event] = []
        self.log = MemoryLog(lambda: 0)
        self.log.create([
            TopicSpec(JOB.cuts), TopicSpec(DATA.topic, 2), TopicSpec(JOB.delivered, 1, {"cleanup.policy": "compact"}),
            TopicSpec("flights"), *TOPICS.specs(), TopicSpec(TOPICS.job("flights", "8-abcdef").cuts),
        ])  # fmt: skip
        keyring = Keyring(secrets or [OURS], unsealed)
        self.door = SealedLog(self.log, TOPICS, keyring, self.reports.append)

    def other(self, *secrets: str) -> SealedLog:
        """Another process of a cluster on the same Kafka."""
        return SealedLog(self.log, TOPICS, Keyring(secrets))

    def stranger(self, partition: Partition, value: bytes | None, key: bytes | None = None) -> None:
        self.log.put(partition, value, key, None)

    def copy(self, message: Message, to: Partition) -> None:
        self.log.put(to, message.value(), message.key(), message.headers())

    def values(self, partition: Partition) -> list[bytes | None]:
        return [message.value() for message in self.door.scan(partition)]


def append(log: SealedLog, partition: Partition, *values: bytes, key: bytes | None = None) -> None:
    appender = log.appender("test")
    for value in values:
        appender.append(partition, value, key=key)


def read(log: SealedLog, *partitions: Partition) -> list[Chunk]:
    reader = log.reader("test")
    reader.assign(dict.fromkeys(partitions, 0))
    return reader.poll(0)


def values(chunks: Sequence[Chunk]) -> list[bytes | None]:
    return [message.value() for chunk in chunks for message in chunk.messages]


def test_records_of_the_cluster_are_read() -> None:
    cluster = Cluster()
    append(cluster.door, DATA, b"a", b"b")
    transactor = cluster.door.transactor("id")
    transactor.start()
    transactor.commit([Rows(DELIVERED.topic, [b"1"], keys=[b"unit"], partitions=[0]), Rows("flights", [b"row"])])
    assert values(read(cluster.door, DATA)) == cluster.values(DATA) == [b"a", b"b"]
    last = cluster.door.last(DELIVERED)
    assert last is not None
    assert last.value() == b"1"
    assert not cluster.door.refusals.counts


def test_records_of_users_have_no_seal() -> None:
    cluster = Cluster()
    append(cluster.door, Partition("flights", 0), b"row")
    cluster.stranger(Partition("flights", 0), b"theirs")
    cluster.stranger(Partition(TOPICS.submit, 0), b"a job")
    assert [m.headers() for m in cluster.log.scan(Partition("flights", 0))] == [None, None]
    assert cluster.values(Partition("flights", 0)) == [b"row", b"theirs"]
    assert cluster.values(Partition(TOPICS.submit, 0)) == [b"a job"]


def test_a_record_without_a_seal_is_no_record_and_is_reported_once() -> None:
    cluster = Cluster()
    append(cluster.door, CUTS, b"a")
    cluster.stranger(CUTS, b"forged")
    append(cluster.door, CUTS, b"b")
    cluster.stranger(CUTS, b"forged again")
    assert cluster.values(CUTS) == [b"a", b"b"]
    assert cluster.door.refusals.counts == {CUTS.topic: 2}
    assert [one.detail for one in cluster.reports] == [f"{CUTS} offset 1: {Fault.UNSEALED}"]


def test_a_true_record_is_none_in_another_partition_topic_or_generation() -> None:
    cluster = Cluster()
    append(cluster.door, DATA, b"frame")
    (frame,) = cluster.log.scan(DATA)
    elsewhere = [
        Partition(DATA.topic, 1),
        Partition(TOPICS.job("flights", "8-abcdef").cuts, 0),
        CUTS,
        Partition(TOPICS.plans, 0),
    ]
    for partition in elsewhere:
        cluster.copy(frame, partition)
        assert cluster.values(partition) == []
        assert values(read(cluster.door, partition)) == []
        assert cluster.door.last(partition) is None
    assert cluster.door.refusals.counts == {partition.topic: 1 for partition in elsewhere}
    assert all(Fault.FORGED in one.detail for one in cluster.reports)


def test_a_tail_into_which_a_stranger_has_written_holds_all_records_that_count() -> None:
    cluster = Cluster()
    numbers = [str(number).encode() for number in range(2 * STRETCH)]
    append(cluster.door, CUTS, *numbers)
    assert [one.value() for one in cluster.door.tail(CUTS)] == numbers[-STRETCH:]
    cluster.stranger(CUTS, b"forged")
    assert [one.value() for one in cluster.door.tail(CUTS)] == numbers


def test_the_same_record_in_its_own_place_is_a_duplicate_which_readers_know() -> None:
    cluster = Cluster()
    append(cluster.door, DATA, b"frame")
    (frame,) = cluster.log.scan(DATA)
    cluster.copy(frame, DATA)
    assert cluster.values(DATA) == [b"frame", b"frame"]


def test_two_secrets_do_not_believe_each_other_and_say_so() -> None:
    cluster = Cluster()
    append(cluster.other(OTHERS), CUTS, b"theirs")
    assert cluster.values(CUTS) == []
    assert [one.detail for one in cluster.reports] == [f"{CUTS} offset 0: {Fault.FOREIGN}"]


def test_a_secret_is_changed_while_all_continue() -> None:
    cluster = Cluster()
    steps = [cluster.other(OURS), cluster.other(OURS, OTHERS), cluster.other(OTHERS, OURS), cluster.other(OTHERS)]
    for before, after in itertools.pairwise(steps):
        for writer in (before, after):
            count = len(list(writer.scan(CUTS)))
            append(writer, CUTS, b"cut")
            if after is not steps[-1]:
                assert len(list(before.scan(CUTS))) == len(list(after.scan(CUTS))) == count + 1


def test_a_cluster_that_gets_its_first_secret_believes_what_was_there() -> None:
    cluster = Cluster(OURS, unsealed=True)
    cluster.stranger(CUTS, b"from before")
    append(cluster.other(OTHERS), CUTS, b"theirs")
    append(cluster.door, CUTS, b"sealed")
    assert cluster.values(CUTS) == [b"from before", b"sealed"]


def test_the_end_of_a_partition_is_met_behind_refused_records() -> None:
    cluster = Cluster()
    append(cluster.door, DATA, b"a")
    cluster.stranger(DATA, b"forged")
    reader = cluster.door.reader("test")
    reader.assign({DATA: 0})
    (chunk,) = reader.poll(0)
    assert [m.value() for m in chunk.messages] == [b"a"]
    assert chunk.end == 2
    cluster.stranger(DATA, b"forged")
    (chunk,) = reader.poll(0)
    assert list(chunk.messages) == []
    assert chunk.end == 3
    assert reader.current(chunk)
    append(cluster.door, DATA, b"b")
    assert values(reader.poll(0)) == [b"b"]


def test_nothing_comes_of_a_stretch_that_a_stranger_wrote() -> None:
    cluster = Cluster()
    for _ in range(20):
        cluster.stranger(DATA, b"forged")
    append(cluster.door, DATA, b"a")
    reader = cluster.door.reader("test")
    reader.assign({DATA: 0})
    assert reader.poll(0, 10) == reader.poll(0, 10) == []
    assert values(reader.poll(0, 10)) == [b"a"]


@pytest.mark.parametrize("strangers", [1, 63, 64, 65, 500])
def test_the_last_record_is_the_last_of_the_cluster(strangers: int) -> None:
    cluster = Cluster()
    append(cluster.door, CUTS, *(b"%d" % n for n in range(100)))
    for _ in range(strangers):
        cluster.stranger(CUTS, b"forged")
    last = cluster.door.last(CUTS)
    assert last is not None
    assert last.value() == b"99"


def test_there_is_no_last_record_where_only_strangers_wrote() -> None:
    cluster = Cluster()
    for _ in range(100):
        cluster.stranger(DELIVERED, b"forged", b"unit")
    assert cluster.door.last(DELIVERED) is None
    assert cluster.door.last(CUTS) is None


def test_a_position_that_kafka_compacted_away_for_a_strangers_is_not_taken_for_none() -> None:
    """Else all rows would be delivered again."""
    cluster = Cluster()
    append(cluster.door, DELIVERED, b"9734", key=b"unit")
    (position,) = cluster.log.scan(DELIVERED)
    cluster.stranger(DELIVERED, b"0", b"unit")
    stored = cluster.log.stored(DELIVERED)
    forged = stored.messages[1]
    stored.messages.clear()
    cluster.log.skip(DELIVERED)  # what compaction leaves
    stored.messages.append(forged)
    assert position.offset() == 0
    with pytest.raises(Torn, match="compacted these away"):
        cluster.door.last(DELIVERED)


def test_a_reader_of_its_own_asks_the_gate() -> None:
    cluster = Cluster()
    append(cluster.door, CUTS, b"cut")
    (cut,) = cluster.log.scan(CUTS)
    takes = cluster.door.gate.takes
    assert takes(CUTS, 0, tuple(cut.headers() or ()), None, b"cut")
    assert takes(Partition(TOPICS.submit, 0), 0, (), None, b"a job")
    assert not takes(CUTS, 1, tuple(cut.headers() or ()), None, b"forged")
    assert not takes(DATA, 2, tuple(cut.headers() or ()), None, b"cut")
    assert cluster.door.refusals.counts == {CUTS.topic: 1, DATA.topic: 1}


@given(parts, parts, headers, parts, parts, headers)
def test_any_change_of_key_value_or_headers_is_refused(
    key: bytes | None,
    value: bytes | None,
    given: list[tuple[str, bytes]] | None,
    other_key: bytes | None,
    other_value: bytes | None,
    other: list[tuple[str, bytes]] | None,
) -> None:
    assume((key, value, given or []) != (other_key, other_value, other or []))
    place = Keyring([OURS]).place(DATA)
    seal = (HEADER, place.seal(given, key, value))
    assert place.fault([*(given or ()), seal], key, value) is None
    assert place.fault([*(other or ()), seal], other_key, other_value) is not None


@given(st.binary(max_size=40), st.data())
def test_any_change_of_a_seal_is_refused(value: bytes, data: st.DataObject) -> None:
    place = Keyring([OURS]).place(DATA)
    seal = place.seal(None, None, value)
    other = data.draw(st.one_of(st.binary(max_size=30), st.integers(0, len(seal) - 1).map(lambda n: seal[:n])))
    assume(other != seal)
    assert place.fault([(HEADER, other)], None, value) is not None
    at = data.draw(st.integers(0, len(seal) * 8 - 1))
    flipped = bytearray(seal)
    flipped[at // 8] ^= 1 << at % 8
    assert place.fault([(HEADER, bytes(flipped))], None, value) is not None


def test_a_secret_is_never_shown() -> None:
    keyring = Keyring([OURS])
    assert OURS not in repr(keyring) + repr(vars(keyring))
