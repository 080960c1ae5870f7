"""Micro-batches of a Spark operator: a cut names them, a source reads them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from holdfast.schemas.commits import Commit
from holdfast.schemas.dead_letters import DeadLetter


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A valid commit with the frames and dead letters that it names.

    offset: the offset of the commit in the commit log.
    commit: the commit record.
    payloads: the payloads of its frames.
    dead: its dead letters.
    """

    offset: int
    commit: Commit
    payloads: tuple[memoryview, ...]
    dead: tuple[DeadLetter, ...] = ()

    @property
    def rows(self) -> int:
        return sum(frame.rows for frame in self.commit.frames)

    @property
    def bytes(self) -> int:
        return sum(map(len, self.payloads)) + sum(len(letter.raw) for letter in self.dead)

    def dead_in(self, batch: int) -> list[DeadLetter]:
        """The dead letters of the commit, with the number of this batch."""
        return [msgspec.structs.replace(letter, batch=batch) for letter in self.dead]
