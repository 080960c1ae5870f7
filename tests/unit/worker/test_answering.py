"""Answers: who asks, when again, and which of several records counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.schemas import answers, cuts
from holdfast.schemas.answers import Answer
from holdfast.schemas.cuts import Answered
from holdfast.schemas.decided import Id
from holdfast.services.decisions.answers import MOST_PARTS, Answers
from holdfast.services.worker.core.answer_steps import AnsweringView, Step, next_step, pause_ms
from holdfast.services.worker.unit.user_code.user_answers import MOST_BYTES, PART_BYTES

ASKS = AnsweringView(
    leads=True, announced=True, announcing=True, busy=False, made=False, failures=0, again_ms=0, now_ms=1,
    retries=2, on_error="dead-letter",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "step"),
    [
        ({}, Step.ASK),
        ({"leads": False}, Step.WAIT),
        ({"busy": True}, Step.WAIT),
        ({"announced": False, "announcing": False}, Step.ANNOUNCE),
        ({"announced": False}, Step.WAIT),
        ({"announced": False, "made": True}, Step.WAIT),
        ({"made": True}, Step.PROPOSE),
        ({"failures": 1, "again_ms": 2}, Step.WAIT),
        ({"failures": 2}, Step.ASK),
        ({"failures": 3}, Step.REFUSE),
        ({"failures": 3, "on_error": "fail"}, Step.FAIL),
        ({"failures": 3, "on_error": "retry"}, Step.ASK),
    ],
)
def test_a_leader_asks_once_its_announcement_is_read_back_and_pauses_between_attempts(
    changed: dict[str, object], step: Step
) -> None:
    assert next_step(replace(ASKS, **changed)) is step  # type: ignore[arg-type]


def test_pauses_double_up_to_half_a_minute() -> None:
    assert [pause_ms(failures, 500) for failures in (1, 2, 3, 7, 500)] == [500, 1_000, 2_000, 30_000, 30_000]
    assert pause_ms(3, 60_000) == 60_000, "who asks for a longer pause gets it"


def record(who: str, part: int, data: bytes, parts: int = 2, batch: int = 7) -> Answered:
    found = cuts.decode(cuts.encode(Answered("u-0", "o-0", batch, Id(who, 1), part, parts, data)))
    assert isinstance(found, Answered)
    return found


def test_the_first_whole_answer_counts() -> None:
    data = answers.encode(Answer(b"a" * 10, ((3, "no"),)))
    other, half = answers.encode(Answer(b"b" * 10)), len(data) // 2
    found = Answers(["o-0"])
    for one in (
        record("x", 0, b"", parts=0),
        record("x", 1, data[half:]),
        record("x", 0, data[:half]),
        record("y", 0, other, parts=1),
        record("x", 1, data[half:]),
        record("z", 0, data, parts=MOST_PARTS + 1),
    ):
        found.read(one)
    assert found.of(7) == {"o-0": Answer(b"b" * 10)}, "x had begun first, and was whole later"
    found.forget(7)
    assert found.of(7) == {}


def test_a_part_that_was_sent_twice_and_a_text_that_is_no_answer_change_nothing() -> None:
    data, found = answers.encode(Answer(b"a" * 10)), Answers(["o-0"])
    for one in (
        record("x", 0, b"?", parts=1),
        record("y", 0, data[:5]),
        record("y", 0, data[:5]),
        record("y", 1, data[5:]),
    ):
        found.read(one)
    assert found.of(7) == {"o-0": Answer(b"a" * 10)}


def test_a_record_of_the_largest_part_fits_into_a_message_of_kafka() -> None:
    assert len(cuts.encode(Answered("u", "o", 1, Id("w", 1), 0, 1, b"x" * PART_BYTES))) < 600_000
    assert MOST_BYTES == 24 * 1024 * 1024
