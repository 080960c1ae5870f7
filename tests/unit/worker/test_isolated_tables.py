"""What code in a process of its own asks its worker for, and how long it may take."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from holdfast.services.kernel.operators.user_state import encode_key
from holdfast.services.worker.isolated import messages, tables
from holdfast.services.worker.isolated.code_process import Patience
from holdfast.services.worker.isolated.tables import KeysOfBatch, KnownTables

TASK = "o-0"


class Asked:
    """Answers for a table with these entries, and notes each question."""

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        self.entries, self.questions = entries, list[Any]()

    def __call__(self, question: Any) -> Any:
        self.questions.append(question)
        if isinstance(question, messages.Get):
            return messages.Found([self.entries.get(key) for key in question.keys])
        return messages.Page(sorted(self.entries.items()), False)


def keys_of(*keys: str) -> KeysOfBatch:
    return KeysOfBatch(pl.DataFrame({"key": keys}), ["key"])


def key(text: str) -> bytes:
    return encode_key(text)


def test_a_table_by_the_operator_s_key_is_asked_for_once_a_batch() -> None:
    asked = Asked({key("a"): b"1", key("b"): b"2"})
    known = KnownTables(TASK, asked)
    known.begin(keys_of("a", "b", "a", "c"))
    table = known.table("t")
    assert [table.get_many([key(one)]) for one in "abc"] == [[b"1"], [b"2"], [None]]
    assert [question.keys for question in asked.questions] == [[key("a"), key("b"), key("c")]]
    known.begin(keys_of("c", "d"))
    table.put_many([key("d")], [b"4"])
    assert table.get_many([key("c"), key("d"), key("a")]) == [None, b"4", b"1"]
    assert len(asked.questions) == 1
    assert known.writes == [messages.Put(0, [key("d")], [b"4"])]


def test_keys_that_are_not_the_operator_s_are_asked_for_alone() -> None:
    asked = Asked({b"x": b"1"})
    known = KnownTables(TASK, asked)
    known.begin(keys_of("a", "b"))
    assert known.table("t").get_many([b"x", b"y"]) == [b"1", None]
    assert [question.keys for question in asked.questions] == [[b"x", b"y"]]
    assert [question.opened for question in asked.questions] == [["t"]]


def test_a_scan_sees_what_was_written_and_is_not_made_twice() -> None:
    asked = Asked({b"a": b"1", b"b": b"2", b"c": b"3"})
    known = KnownTables(TASK, asked)
    table = known.table("t")
    table.put_many([b"b"], [b"new"])
    table.delete_many([b"c"])
    for _ in range(2):
        assert list(table.scan(b"")) == [(b"a", b"1"), (b"b", b"new")]
    assert table.get_many([b"z"]) == [None]
    assert len(asked.questions) == 1


def test_the_rows_that_are_known_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_KNOWN_BYTES", 1_000)
    asked = Asked({b"a": b"x" * 2_000})
    known = KnownTables(TASK, asked)
    table = known.table("t")
    for batch in (1, 2, 3):
        known.begin(KeysOfBatch(pl.DataFrame(), ()))
        assert table.get_many([b"a"]) == [b"x" * 2_000]
        assert len(asked.questions) == batch


def test_time_in_which_the_worker_itself_stood_still_is_not_the_code_s() -> None:
    now = 0.0
    patience = Patience(1.0, lambda: now)
    now = 100.0
    assert not patience.over()
    for _ in range(10):
        now += 0.1
    assert not patience.over()
    found = []
    for _ in range(20):
        now += 0.1
        found.append(patience.over())
    assert found[-1]
