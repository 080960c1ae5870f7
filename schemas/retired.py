"""Generations of jobs that a decided log has retired, so that its snapshots do not grow with the age of a cluster.

Source: PROTOCOL 1; docs/decisions/0055-decided-logs-are-trimmed.md.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from holdfast.schemas.decoders import Count


class Retired(msgspec.Struct, frozen=True, omit_defaults=True):
    """Retired generations: of all that were submitted below the offset `below` of `jobs.submit`, only `kept` still
    count.

    A record about a retired one is invalid for ever, however late it comes, so no reader needs to keep its name.
    """

    below: Count = 0
    kept: tuple[str, ...] = ()

    def has(self, generation: str) -> bool:
        """True if this generation is retired; a text without an offset names no generation and never is."""
        offset = submitted(generation)
        return offset is not None and offset < self.below and generation not in self.kept

    def joined(self, other: Retired, held: Collection[str] = ()) -> Retired:
        """Returns the generations that either has retired, without those that are `held` and so cannot be retired yet.

        Order and repetition of joins do not matter: an author that has read less takes nothing back.
        """
        below = max(self.below, other.below)
        known = {*self.kept, *other.kept, *held}
        kept = (g for g in known if g in held or not (self.has(g) or other.has(g)))
        return Retired(below, tuple(sorted(g for g in kept if (submitted(g) or 0) < below)))


def submitted(generation: str) -> int | None:
    """Returns the offset of the generation's JobSpec in `jobs.submit`; None if the text is no generation."""
    offset = generation.partition("-")[0]
    return int(offset) if offset.isascii() and offset.isdecimal() and len(offset) <= 18 else None
