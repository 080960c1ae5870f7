"""Decides how a copy gets the answers that users' code awaits: which copy asks, when it asks again, and when nobody
asks.

Source: decision 0225. The leader first announces itself in the cut log. When it has read its announcement back, it has
read every earlier decision and asks for none of these answers again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

MOST_PAUSE_MS = 30_000.0


class Step(Enum):
    """The copy's next step for one task."""

    WAIT = "nothing"
    ANNOUNCE = "announce the leader in the cut log"
    ASK = "make the calls that have no answer"
    PROPOSE = "propose the answer"
    REFUSE = "refuse the rows of calls that have failed too often, and propose the rest"
    FAIL = "the job ends: calls have failed too often"


@dataclass(frozen=True, slots=True)
class AnsweringView:
    """A copy's view of one task of the next batch. The batch is here and brings rows, and the cut log holds no answer
    for it.

    Attributes:
        leads: True if the copy has `commit` and processes.
        announced: True if its announcement is read back.
        announcing: True if its announcement is on its way.
        busy: True if calls or a proposal are under way.
        made: True if all calls are answered.
        failures: number of failed attempts.
        again_ms: time of the next attempt.
        now_ms: the present time.
        retries: number of attempts after the first one.
        on_error: setting of the job for rows of failed calls.
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


def next_step(view: AnsweringView) -> Step:
    if not view.leads or view.busy:
        return Step.WAIT
    if not view.announced:
        return Step.WAIT if view.announcing else Step.ANNOUNCE
    if view.made:
        return Step.PROPOSE
    if view.failures > view.retries and view.on_error != "retry":
        return Step.FAIL if view.on_error == "fail" else Step.REFUSE
    return Step.ASK if view.now_ms >= view.again_ms else Step.WAIT


def pause_ms(failures: int, first_ms: float) -> float:
    """The time until the next attempt, in milliseconds."""
    return float(min(first_ms * 2 ** min(failures - 1, 30), max(first_ms, MOST_PAUSE_MS)))
