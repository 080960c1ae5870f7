"""Questions to Spark before a job is admitted, and its answers: between a planner and services/spark/analysis.

Source: PROTOCOL 12: an exception of a function, or an unsupported plan, rejects the job.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.decoders import Strict
from holdfast.schemas.plans import Problem, SparkPlan


class Question(msgspec.Struct, frozen=True):
    """A question about one operator.

    operator: its plan without output.
    allow: modules that the operator may come from; None: any.
    path: folders in which modules are found.
    """

    operator: SparkPlan
    allow: tuple[str, ...] | None
    path: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The output's type text by column, and fields of a SparkPlan; or the problems, with paths below the operator.

    outputs: the columns of each output of a function that has several.
    """

    output: dict[str, str] = {}
    outputs: dict[str, dict[str, str]] = {}
    time: str = ""
    timed: bool = False
    holds: bool = False
    closes: bool = False
    mode: str = "micro-batch"
    reason: str = ""
    problems: tuple[Problem, ...] = ()

    @property
    def hosted(self) -> dict[str, object]:
        """The fields that a plan keeps besides the output."""
        names = ("time", "timed", "holds", "closes", "mode", "reason")
        return {name: getattr(self, name) for name in names}


_question = Strict(msgspec.json.Decoder(Question).decode)
_answer = Strict(msgspec.json.Decoder(Answer).decode)


def decode_question(data: bytes) -> Question:
    """Decodes a question. Raises msgspec.DecodeError on malformed bytes."""
    return _question.decode(data)


def decode_answer(data: bytes) -> Answer:
    """Decodes an answer. Raises msgspec.DecodeError on malformed bytes."""
    return _answer.decode(data)


def encode(record: Question | Answer) -> bytes:
    return msgspec.json.encode(record)


ANSWER_S = 180.0
"""Longest time that an answer takes."""
LENGTH_BYTES = 4
"""Number of bytes before each record in a pipe that hold its length; a length of 0 ends the questions."""


def framed(record: bytes) -> bytes:
    """Returns a record as it goes through a pipe."""
    return len(record).to_bytes(LENGTH_BYTES) + record
