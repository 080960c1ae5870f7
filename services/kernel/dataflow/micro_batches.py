"""Micro-batches of a Spark operator, which a cut names and a source brings."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from holdfast.schemas.commits import Commit
from holdfast.schemas.dead_letters import DeadLetter


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A valid commit at `offset`, and the payloads of its frames and its dead letters as it names them."""

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
        """Its dead letters as those of a batch."""
        return [msgspec.structs.replace(letter, batch=batch) for letter in self.dead]
