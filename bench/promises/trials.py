"""Takeovers under promises, and their report. Pure.

Source: MECHANISMS A4 and A5, docs/decisions/0103.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import msgspec

from bench.rig.resumed import remaining

DRILL, KILL, UNNOTICED = "drill", "kill", "kill-unnoticed"
KINDS = {
    DRILL: "`holdfast drill`: nothing fails, detection counts as estimated",
    KILL: "SIGKILL; the parent gives notice of the exit",
    UNNOTICED: "SIGKILL; only the missing heartbeats show it",
}
PROMISES_MS = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 200)
KEPT_FROM_MS = 500
"""Least promise in milliseconds that must always be kept; of shorter ones only the share of broken promises is
reported.
"""


class Trial(msgspec.Struct, frozen=True):
    """A takeover to be made."""

    promise_ms: int
    kind: str


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """A takeover that was made, with recovery's judgement.

    predicted_ms: 0: nothing was predicted.
    took_ms: milliseconds from the failure until the unit had its former progress.
    rows, lost, duplicated, wrong: rows of the promise's job in the whole round, in its last outcome.
    changes: number of changes of its scheme by recovery.
    hasty: number of these changes within a cool-down.
    unjudged: number of takeovers before this one that were refused or not judged.
    """

    promise_ms: int
    kind: str
    scheme: str
    took_ms: float
    predicted_ms: float
    phases_ms: dict[str, float] = {}
    rows: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: int = 0
    unjudged: int = 0
    changes: int = 0
    hasty: int = 0

    @property
    def kept(self) -> bool:
        return self.took_ms <= self.promise_ms


def trials(promises_ms: Sequence[int], counts: Mapping[str, int]) -> list[Trial]:
    """The trials of each promise.

    counts: number of trials of each kind, for each promise.
    """
    return [Trial(p, kind) for p in promises_ms for kind, count in counts.items() for _ in range(count)]


def left_of(wanted: Sequence[Trial], made: Sequence[Outcome]) -> list[Trial]:
    """Trials that are still to be made."""
    return remaining(wanted, [Trial(one.promise_ms, one.kind) for one in made])


def rounds(left: Sequence[Trial], together: int) -> Iterator[list[Trial]]:
    """Trials for one cluster each: of `together` promises, not only short ones; with exit notices or without."""
    promises_ms = list(dict.fromkeys(trial.promise_ms for trial in left))
    groups = -(-len(promises_ms) // together)
    for first in range(groups):
        mine = promises_ms[first::groups]
        for unnoticed in (False, True):
            some = [one for one in left if one.promise_ms in mine and (one.kind == UNNOTICED) is unnoticed]
            if some:
                yield some


@dataclass(frozen=True, slots=True)
class Row:
    """Row of one promise and kind.

    worst: the longest takeover as a share of the promise.
    schemes: number of takeovers under each scheme.
    """

    promise_ms: int
    kind: str
    times: int
    broken: int
    took_ms: float
    longest_ms: float
    predicted_ms: float
    schemes: Mapping[str, int]

    @property
    def met(self) -> bool | None:
        """True if the promise was always kept; None: nothing was promised."""
        return None if self.promise_ms < KEPT_FROM_MS else self.broken == 0


def report(made: Sequence[Outcome]) -> list[Row]:
    """Medians; by promise and kind."""
    return [_row(promise_ms, kind, some) for promise_ms in sorted({one.promise_ms for one in made}) for kind in KINDS
            if (some := [one for one in made if (one.promise_ms, one.kind) == (promise_ms, kind)])]  # fmt: skip


def _row(promise_ms: int, kind: str, some: Sequence[Outcome]) -> Row:
    return Row(
        promise_ms,
        kind,
        len(some),
        sum(not one.kept for one in some),
        round(median(one.took_ms for one in some), 1),
        max(one.took_ms for one in some),
        round(median(one.predicted_ms for one in some), 1),
        Counter(one.scheme for one in some),
    )


def exact(made: Sequence[Outcome]) -> bool:
    """True if no row is lost, duplicated or wrong."""
    return not any(one.lost or one.duplicated or one.wrong for one in made)
