"""Appends the records of actions, and reports the outcome of each once the broker has answered.

Source: PROTOCOL 1. A record without an answer is not given up: the appender retries without end, so an outage of the
broker delays proposals and never doubles them.
"""

from __future__ import annotations

from functools import partial

from holdfast.schemas.topics import Partition
from holdfast.services.controller.core.actions import Action
from holdfast.services.controller.core.events import Done, Failed, Outcome
from holdfast.services.kernel.errors import HoldfastError, Retriable
from holdfast.services.log.protocol import Appender, Log

ANSWER_S = 1.0


class RecordWriter:
    """An appender with outcomes, used by one thread at a time."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._appender: Appender = log.appender("controller")
        self._outcomes: list[Outcome] = []
        self.unanswered = 0

    def append(self, action: Action, partition: Partition, value: bytes | None, key: bytes | None = None) -> None:
        done = partial(self._answered, action)
        self.unanswered += 1
        try:
            self._appender.append(partition, value, key=key, done=done)
        except HoldfastError as error:
            self._answered(action, error, -1)
            if isinstance(error, Retriable):
                self._reopen()

    def outcomes(self) -> list[Outcome]:
        """Waits up to ANSWER_S for answers; returns the outcomes that have arrived."""
        if self.unanswered:
            try:
                self._appender.flush(ANSWER_S)
            except Retriable:
                self._appender.poll()  # each failed record has its own answer, and the others are still on their way
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def close(self) -> None:
        self._appender.close()

    def _answered(self, action: Action, error: Exception | None, _offset: int) -> None:
        self.unanswered -= 1
        self._outcomes.append(Done(action) if error is None else Failed(action, str(error)))

    def _reopen(self) -> None:
        self._appender.close()
        self._appender = self._log.appender("controller")
