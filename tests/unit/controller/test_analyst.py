"""The process that asks Spark serves questions one after the other, and is replaced when it fails."""

from __future__ import annotations

import sys
import time

import pytest

from holdfast.schemas.analysis import Question
from holdfast.schemas.plans import SparkPlan
from holdfast.services.controller import analyst as module
from holdfast.services.controller.analyst import Analyst, NoAnswer
from tests.support.deadlines import HANG_S

SERVES = """
import os, sys
from holdfast.schemas.analysis import Answer, decode_question, encode, framed
while size := int.from_bytes(sys.stdin.buffer.read(4)):
    asked = decode_question(sys.stdin.buffer.read(size)).operator
    if asked.sql == "dies":
        sys.exit("there is no space on the disk")
    if asked.sql == "waits":
        sys.stdin.buffer.read(1)
    sys.stdout.buffer.write(framed(encode(Answer(output={"pid": str(os.getpid())}))))
    sys.stdout.buffer.flush()
"""
COMMAND = (sys.executable, "-c", SERVES)


def question(sql: str = "") -> Question:
    return Question(SparkPlan("h", "u", "t", {}, {}, {}, sql=sql), None)


def until_it_has_ended(analyst: Analyst) -> None:
    ends = time.monotonic() + HANG_S
    while analyst.running and time.monotonic() < ends:
        time.sleep(0.01)
    assert not analyst.running


def test_the_same_process_answers_until_it_fails_and_then_the_next_one() -> None:
    analyst = Analyst(COMMAND)
    first = analyst.ask(question())
    assert analyst.ask(question()) == first
    with pytest.raises(NoAnswer, match="there is no space on the disk"):
        analyst.ask(question("dies"))
    second = analyst.ask(question())
    assert second != first
    with pytest.raises(NoAnswer, match="did not answer within"):
        analyst.ask(question("waits"), within_s=0.05)
    assert analyst.ask(question()) != second
    analyst.close()
    assert not analyst.running


def test_a_process_ends_that_nobody_asks_or_that_has_answered_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 1)
    often = Analyst(COMMAND)
    first = often.ask(question())
    until_it_has_ended(often)
    assert often.ask(question()) != first
    often.close()
    monkeypatch.undo()
    idle = Analyst(COMMAND, linger_s=0.0)
    idle.ask(question())
    until_it_has_ended(idle)
