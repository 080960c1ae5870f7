"""The commit log of a Spark operator as every reader folds it: which micro-batches count.

Source: PROTOCOL 12. A commit is valid iff prev fits, k = last + 1, it starts where the last one stopped, its frames lie
behind the last one, and no fence of a higher epoch precedes it.
"""

from __future__ import annotations

from collections.abc import Mapping

from schemas.commits import Commit, CommitRecord, Fence, Heard, Positions
from schemas.cuts import NO_WATERMARK
from schemas.decided import Id


class CommitLog:
    """Folds the records of one commit log in offset order.

    Args:
        first: where the plan says that reading begins.
        at, last: a valid commit and its offset, for a reader that starts there.
    """

    def __init__(self, first: Mapping[str, Mapping[int, int]], at: int = -1, last: Commit | None = None) -> None:
        self._first: Positions = {topic: dict(offsets) for topic, offsets in first.items()}
        self.last = last
        self.at = at
        self.epoch = 0 if last is None else last.epoch
        self.upto = at + 1

    @property
    def k(self) -> int:
        """The last valid micro-batch, 0 before the first."""
        return 0 if self.last is None else self.last.k

    @property
    def prev(self) -> Id | None:
        return None if self.last is None else self.last.id

    @property
    def stop(self) -> Positions:
        """Where the input of the next micro-batch begins."""
        return self._first if self.last is None else self.last.stop

    @property
    def watermark(self) -> int:
        return NO_WATERMARK if self.last is None else self.last.watermark

    @property
    def heard(self) -> tuple[Heard, ...]:
        """How far each input partition has come."""
        return () if self.last is None else self.last.heard

    @property
    def ended(self) -> bool:
        return self.last is not None and self.last.final

    def read(self, offset: int, record: CommitRecord) -> bool:
        """Takes the record at `offset`; False if it is invalid (or was folded already) and so changes nothing."""
        if offset < self.upto:
            return False
        self.upto = offset + 1
        if isinstance(record, Fence):
            return self._fence(record)
        if not self._follows(offset, record):
            return False
        self.last, self.at, self.epoch = record, offset, record.epoch
        return True

    def _fence(self, fence: Fence) -> bool:
        if fence.epoch <= self.epoch:
            return False
        self.epoch = fence.epoch
        return True

    def _follows(self, offset: int, commit: Commit) -> bool:
        return (
            not self.ended
            and commit.epoch >= self.epoch
            and commit.prev == self.prev
            and commit.k == self.k + 1
            and commit.start == self.stop
            and commit.stop.keys() == commit.start.keys()
            and all(_onward(commit.start[topic], commit.stop[topic]) for topic in commit.start)
            and all(self.at < named < offset for named in (*(f.offset for f in commit.frames), *commit.dead))
            and commit.watermark >= self.watermark
        )


def _onward(start: Mapping[int, int], stop: Mapping[int, int]) -> bool:
    """Every partition goes on, none goes back; a topic may have grown."""
    return all(stop.get(partition, -1) >= offset for partition, offset in start.items())
