"""Conduct of a copy about answers that users' code awaits: who asks, when again, and when nobody does.

Source: decision 0225. The leader announces itself in the cut log first: once it has read that back it knows all that
was decided before, and asks for none of it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

MOST_PAUSE_MS = 30_000.0


class Step(Enum):
    """Next steps of the copy about one task."""

    WAIT = "nothing"
    ANNOUNCE = "announce the leader in the cut log"
    ASK = "make the calls that have no answer"
    PROPOSE = "propose the answer"
    REFUSE = "refuse the rows of calls that have failed too often, and propose the rest"
    FAIL = "the job ends: calls have failed too often"


@dataclass(frozen=True, slots=True)
class AnsweringView:
    """A copy's view of one task of the next batch, which is here and brings rows, and the cut log holds no answer.

    leads: it has `commit` and processes. announced: its announcement is read back; announcing: it is on its way.
    busy: calls, or a proposal, are under way.
    made: all calls are answered. failures: attempts that have failed. again_ms: when the next one is due.
    """

    leads: bool
    announced: bool
    announcing: bool
    busy: bool
    made: bool
    failures: int
    again_ms: float
    now_ms: float
    retries: int
    on_error: str


def next_step(sight: AnsweringView) -> Step:
    if not sight.leads or sight.busy:
        return Step.WAIT
    if not sight.announced:
        return Step.WAIT if sight.announcing else Step.ANNOUNCE
    if sight.made:
        return Step.PROPOSE
    if sight.failures > sight.retries and sight.on_error != "retry":
        return Step.FAIL if sight.on_error == "fail" else Step.REFUSE
    return Step.ASK if sight.now_ms >= sight.again_ms else Step.WAIT


def pause_ms(failures: int, first_ms: float) -> float:
    """Time until the next attempt."""
    return float(min(first_ms * 2 ** min(failures - 1, 30), max(first_ms, MOST_PAUSE_MS)))
