"""Dead letters go back to their topics once, as they were, whatever happens in between."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.schemas.dead_letters import MAX_RAW_BYTES, DeadLetter, Position, encode
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.client import resent_letters
from holdfast.services.client.exported_letters import Exported, lines_of, mended
from holdfast.services.client.resent_letters import HEADER, Mended, Resent, resend
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.log.memory import MemoryLog

TOPICS = ClusterTopics().job("job", "0-abcdef")
SOURCE = Partition("orders", 1)
BIG = b"x" * (MAX_RAW_BYTES + 1)


class Site:
    """A source topic with two partitions, and the dead letters of a job that reads it."""

    def __init__(self) -> None:
        self.log = MemoryLog(lambda: 0)
        self.log.create([TopicSpec("orders", 2), TopicSpec(TOPICS.dead_letters)])
        self.appender = self.log.appender("test")

    def refuse(
        self, value: bytes | None, key: bytes | None = None, headers: list[tuple[str, bytes]] | None = None
    ) -> None:
        offset = self.log.put(SOURCE, value, key, headers)
        self.letter(value, offset)

    def letter(self, value: bytes | None, offset: int, topic: str = "orders") -> None:
        raw = value or b""
        letter = DeadLetter(
            "source", "why", 1, topic, SOURCE.index, offset, raw[:MAX_RAW_BYTES], len(raw) > MAX_RAW_BYTES
        )
        self.log.put(Partition(TOPICS.dead_letters, 0), encode(letter), None, None)

    def resend(self, *, again: bool = False, mended: Mended | None = None) -> Resent:
        return resend(self.log, TOPICS, self.log.topics(), again=again, mended=mended)

    def sent(self) -> list[tuple[bytes | None, bytes | None]]:
        """(key, value) of what was sent back, all into the partition it came from."""
        found = [one for one in self.log.scan(SOURCE) if HEADER in dict(one.headers() or ())]
        return [(one.key(), one.value()) for one in found]


@pytest.fixture
def site() -> Site:
    return Site()


def test_records_go_back_as_they_were_once(site: Site) -> None:
    site.log.put(SOURCE, b"good", None, None)
    site.refuse(b"not json", b"k", [("a", b"1")])
    site.refuse(None)
    site.refuse(BIG)
    site.refuse(b"\xff\n")
    assert site.resend() == Resent(sent={"orders": 4})
    assert site.sent() == [(b"k", b"not json"), (None, None), (None, BIG), (None, b"\xff\n")]
    back = list(site.log.scan(SOURCE))[5]
    assert back.headers() == [("a", b"1"), (HEADER, b"orders/1/1")]
    assert site.resend() == Resent(earlier=4)
    site.refuse(b"another")
    assert site.resend() == Resent(sent={"orders": 1}, earlier=4)


def test_letters_refused_again_are_sent_again_only_when_asked_for(site: Site) -> None:
    site.refuse(b"bad")
    site.resend()
    site.letter(b"bad", 1)
    site.refuse(b"new")
    assert site.resend() == Resent(sent={"orders": 1}, earlier=1, again=1)
    assert site.resend(again=True) == Resent(sent={"orders": 1}, earlier=2)
    assert site.resend(again=True) == Resent(earlier=3)
    assert [value for _, value in site.sent()] == [b"bad", b"new", b"bad"]


def test_rows_of_operators_stay_and_are_counted(site: Site) -> None:
    site.log.put(Partition(TOPICS.dead_letters, 0), encode(DeadLetter("scored", "boom", 3, row="{}")), None, None)
    named = DeadLetter("hourly", "late", 3, "orders", SOURCE.index, site.log.put(SOURCE, b"late", None, None), row="{}")
    site.log.put(Partition(TOPICS.dead_letters, 0), encode(named), None, None)
    assert site.resend() == Resent(of_operators=2)
    assert site.sent() == []


def test_values_that_the_topic_no_longer_holds_are_taken_from_the_letter(site: Site) -> None:
    site.refuse(b"bad", b"k")
    site.refuse(BIG)
    site.letter(b"x", 0, topic="deleted")
    site.log.trim({SOURCE: 2})
    assert site.resend() == Resent(sent={"orders": 1}, gone=2)
    assert site.sent() == [(None, b"bad")]


def test_a_topic_made_again_gives_no_other_record(site: Site) -> None:
    site.refuse(b"bad", b"k")
    site.log.delete(["orders"])
    site.log.create([TopicSpec("orders", 2)])
    site.log.put(SOURCE, b"other", b"o", None)
    site.resend()
    assert site.sent() == [(None, b"bad")]


def test_many_go_in_several_transactions(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resent_letters, "TOGETHER", 3)
    for number in range(10):
        site.refuse(b"%d" % number)
        site.log.put(SOURCE, b"good", None, None)
    assert site.resend().sent == {"orders": 10}
    assert [value for _, value in site.sent()] == [b"%d" % number for number in range(10)]
    assert site.resend() == Resent(earlier=10)


def test_a_mended_file_sends_its_records_once_and_leaves_the_others_to_a_replay(site: Site) -> None:
    site.refuse(b'{"a": 1', b"k", [("h", b"1")])
    site.refuse(b"\xff", None)
    site.refuse(b"left alone")
    found = Exported()
    lines = [msgspec.json.decode(line) for line in lines_of(site.log, TOPICS, site.log.topics(), found)]
    assert (found, [line["offset"] for line in lines]) == (Exported(written=3), [0, 1, 2])
    assert lines[0] == {
        "topic": "orders", "partition": 1, "offset": 0, "reason": "why", "key": "k", "value": '{"a": 1'
    }  # fmt: skip
    assert lines[1]["value_base64"] == "/w=="
    lines[0] |= {"value": {"a": 1}, "key": "other"}
    text = [msgspec.json.encode(line) for line in lines[:2]]
    fixed = mended([*text, b"\n"], "bad.ndjson")
    assert site.resend(mended=fixed) == Resent(sent={"orders": 2})
    assert site.sent() == [(b"other", b'{"a":1}'), (None, b"\xff")]
    assert dict(list(site.log.scan(SOURCE))[-2].headers() or ())["h"] == b"1"
    assert site.resend(mended=fixed) == Resent(earlier=2)
    assert site.resend() == Resent(sent={"orders": 1}, earlier=2)
    assert site.resend(mended=fixed) == Resent(earlier=2)
    assert site.resend(mended=fixed, again=True) == Resent(sent={"orders": 2})


def test_a_file_with_a_line_at_fault_or_of_another_job_sends_nothing(site: Site) -> None:
    site.refuse(b"x")
    line = {"topic": "orders", "partition": 1, "offset": 0, "key": None, "value": "y"}
    faults = {
        b"{": "line 2: no JSON: ",
        b"[]": "line 2: no JSON object",
        b"{}": "line 2: topic, partition, offset are to name a record",
        msgspec.json.encode(line): r"line 2: orders\[1\] offset 0 stands in a line before",
        msgspec.json.encode({**line, "offset": 1, "value": 5}): "line 2: value is to be a text",
        msgspec.json.encode({**line, "offset": 1, "value_base64": "eA=="}): "line 2: value or value_base64 is to be",
        b'{"topic":"o","partition":1,"offset":1,"key":"k","value_base64":"?"}': "line 2: value_base64 is no base64",
    }
    for second, reason in faults.items():
        with pytest.raises(UnusableFile, match=f"bad.ndjson: {reason}"):
            mended([msgspec.json.encode(line), second], "bad.ndjson")
    with pytest.raises(CommandFailed, match=r"orders\[1\] offset 7 is no dead letter of job"):
        site.resend(mended={Position("orders", 1, 7): (None, b"y"), Position("orders", 1, 0): (None, b"y")})
    assert site.sent() == []
