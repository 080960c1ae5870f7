"""Deliberate bugs of answers that users' code awaits: docs/decisions/0225."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from msgspec import structs

from holdfast.schemas.cuts import Answered
from holdfast.services.worker.unit.user_code.user_answers import UserAnswers, _Asked


@contextmanager
def own_answer_taken() -> Iterator[None]:
    """Every copy that processes asks, and takes its own answer, whatever the cut log says first."""
    take, append = UserAnswers._take, UserAnswers._append

    def leading(self: UserAnswers) -> None:
        flags = self._flags
        self._flags = structs.replace(flags, commit=flags.process)
        try:
            take(self)
        finally:
            self._flags = flags

    def own(self: UserAnswers, record: Answered, one: _Asked | None = None) -> None:
        append(self, record, one)
        if record.parts:
            self._answers.read(record)

    with mock.patch.multiple(UserAnswers, _take=leading, _append=own):
        yield
