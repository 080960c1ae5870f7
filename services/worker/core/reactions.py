"""The reactions of a copy to errors, in order of precedence.

Source: docs/failures.md, which lists them for people; decision 0124.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from traceback import extract_tb

from holdfast.services.kernel.errors import (
    Divergence,
    Fenced,
    Indefinite,
    InvalidRecord,
    NoFolder,
    NoRegistry,
    OtherFormat,
    Retriable,
    SchemaChanged,
    StateCorrupted,
    TooLarge,
    TooManyDeadLetters,
    TopicChanged,
    Torn,
    Unreachable,
    WorkerUnfit,
)
from holdfast.services.kernel.operators.user_code import CodeUnavailable

MOST_FRAMES, MOST_TEXT = 8, 2_000


class Reaction(Enum):
    """Reactions to an error; the value is the text in docs/failures.md."""

    END_PROCESS = "the process ends, and its units continue elsewhere"
    REBUILD = "the copy rebuilds from its newest checkpoint"
    REOPEN = "the copy opens its outputs again and reads what was delivered"
    FENCE = "the copy asks who leads"
    FAIL = "the job fails at once"
    FAULT = "the unit is tried again elsewhere"


REACTIONS: Mapping[type[Exception], Reaction] = {
    WorkerUnfit: Reaction.END_PROCESS,
    OtherFormat: Reaction.END_PROCESS,
    StateCorrupted: Reaction.REBUILD,
    Retriable: Reaction.REBUILD,
    Torn: Reaction.FAIL,
    InvalidRecord: Reaction.FAIL,
    CodeUnavailable: Reaction.FAIL,
    TopicChanged: Reaction.FAIL,
    TooManyDeadLetters: Reaction.FAIL,
    TooLarge: Reaction.FAIL,
    Unreachable: Reaction.FAIL,
    NoRegistry: Reaction.FAIL,
    NoFolder: Reaction.FAIL,
    SchemaChanged: Reaction.FAIL,
    Divergence: Reaction.FAIL,
    Exception: Reaction.FAULT,
}
"""Reactions by type of error; the first matching row applies. An error that fails the job names the action that a
person must take. An error without a row of its own is unexpected."""
OF_DELIVERY: Mapping[type[Exception], Reaction] = {
    Fenced: Reaction.FENCE,
    Indefinite: Reaction.REOPEN,
    Retriable: Reaction.REOPEN,
}
"""Rows that precede REACTIONS for an error of the outputs."""


def reaction(error: Exception, *, delivering: bool = False) -> Reaction:
    """The reaction to an error. `delivering` is True if the outputs raised it."""
    rows = [*(OF_DELIVERY if delivering else {}).items(), *REACTIONS.items()]
    return next(found for kind, found in rows if isinstance(error, kind))


def cause_of(error: Exception) -> str:
    """`<type>: <message>, at <file>:<line> <function> < ...`, the innermost frame first; bounded."""
    frames = list(extract_tb(error.__traceback__))[-MOST_FRAMES:]
    places = [f"{PurePath(one.filename).parent.name}/{PurePath(one.filename).name}:{one.lineno} {one.name}"
              for one in reversed(frames)]  # fmt: skip
    text = f"{type(error).__name__}: {error}"[: MOST_TEXT // 2]
    return f"{text}, at {' < '.join(places)}"[:MOST_TEXT] if places else text
