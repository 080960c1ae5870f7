"""The questions to Spark before a job is admitted, and its answers: between a planner and services/spark/analysis.

Source: PROTOCOL 12: what a function raises, or an unsupported plan, rejects the job.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.plans import Problem, SparkPlan
from holdfast.schemas.reading import Strict


class Question(msgspec.Struct, frozen=True):
    """operator: its plan without output. allow: modules it may come from, None: any. path: where they are found."""

    operator: SparkPlan
    allow: tuple[str, ...] | None
    path: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The output's type text by column, and fields of a SparkPlan; or what is wrong, with paths below the operator.

    outputs: the columns of each output, of a function that has several.
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
        """The fields that a plan keeps of it besides the output."""
        names = ("time", "timed", "holds", "closes", "mode", "reason")
        return {name: getattr(self, name) for name in names}


_question = Strict(msgspec.json.Decoder(Question).decode)
_answer = Strict(msgspec.json.Decoder(Answer).decode)


def decode_question(data: bytes) -> Question:
    """Raises msgspec.DecodeError on anything else."""
    return _question.decode(data)


def decode_answer(data: bytes) -> Answer:
    """Raises msgspec.DecodeError on anything else."""
    return _answer.decode(data)


def encode(record: Question | Answer) -> bytes:
    return msgspec.json.encode(record)


ANSWER_S = 180.0
"""Longest time that an answer takes."""
LENGTH_BYTES = 4
"""Bytes before each record in a pipe, which say how long it is; no bytes follow a length of 0, which says that no
question will come."""


def framed(record: bytes) -> bytes:
    """A record as it goes through a pipe."""
    return len(record).to_bytes(LENGTH_BYTES) + record
