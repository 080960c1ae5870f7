"""The takeover of a driver's checkpoint by the next driver: the files that it copies, and the micro-batches that run
again.

Source: PROTOCOL 12: the query checkpoint as of the last valid commit is copied into a directory of the new epoch.
Micro-batch k of the commit log is batch k - 1 of Spark's own count.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from holdfast.services.decisions.commits import CommitLog


@dataclass(frozen=True, slots=True)
class Takeover:
    """The checkpoint to begin with.

    Attributes:
        former: epoch of the directory to copy; None for a new query.
        planned: last batch whose offsets are copied, by Spark's count; -1 for none.
        done: last batch whose completion is copied, by Spark's count; -1 for none.
    """

    former: int | None = None
    planned: int = -1
    done: int = -1


def takeover(log: CommitLog, done: Collection[int]) -> Takeover:
    """The takeover from the valid commits and the batches that the former driver's query has noted as done.

    A driver that died between its commit and Spark's note leaves a valid batch that Spark runs again for its state; the
    output is discarded (see `verdict`). Batches behind the last valid commit are not copied: they run again.
    """
    if log.last is None:
        return Takeover()
    last = log.k - 1
    return Takeover(log.last.epoch, last, max((batch for batch in done if batch <= last), default=-1))


class Verdict(Enum):
    """Decisions on a micro-batch that Spark runs."""

    COMMIT = "write its frames and commit it"
    DISCARD = "it counts already: run it for its state alone"
    STOP = "the commit log does not fit: another driver has taken over, or the checkpoint is not ours"


def verdict(log: CommitLog, epoch: int, batch: int) -> Verdict:
    """The decision on batch `batch` by Spark's count."""
    if log.epoch > epoch:
        return Verdict.STOP
    if batch < log.k or log.ended:
        return Verdict.DISCARD
    return Verdict.COMMIT if batch == log.k else Verdict.STOP
