"""Promises of checkpoint policies on a timer: not sooner than it says, and not much later (MECHANISMS S1, S2, S4).

`individual`: a timer for each unit, which begins again with its capture. `synchronous` and `whole-worker`: all units of
a worker at the same ticks, the multiples of the interval. `sweep`: sink-most units by the interval; the others when
their output was trimmed, or after so many intervals. A unit that has ended captures at once under each of them.
"""

from __future__ import annotations

from holdfast.schemas.assignments import CheckpointPolicy
from holdfast.services.worker.unit.turns.policy_view import PolicyView

TICKING = ("synchronous", "whole-worker")
TIMED = (*TICKING, "individual")
UNTRIMMED_INTERVALS = 4
"""After so many intervals a unit is swept whether its output was trimmed or not."""


def late(terms: CheckpointPolicy, captured_ms: float, now_ms: float) -> bool:
    """True if a unit with something to capture ought to have been captured: idle policies have a maximum interval."""
    if terms.policy in TICKING:
        return _tick(terms, captured_ms) < _tick(terms, now_ms)
    return now_ms - captured_ms > (terms.interval_ms if terms.policy == "individual" else terms.max_interval_ms)


def early(terms: CheckpointPolicy, before_ms: float, captured_ms: float) -> str:
    """Fault of two captures of a unit, one after the other; neither because it has ended."""
    if terms.policy in TICKING and _tick(terms, before_ms) == _tick(terms, captured_ms):
        return f"tick: captured twice between two ticks of {terms.interval_ms} ms"
    if terms.policy == "individual" and captured_ms - before_ms < terms.interval_ms:
        return f"interval: captured {captured_ms - before_ms:.0f} ms after its last, and not {terms.interval_ms}"
    return ""


def swept_early(unit: PolicyView, now_ms: float) -> str:
    """Fault of a sweep of a unit that has not ended; looked at before it begins. One that rests is swept at once."""
    if unit.rests:
        return ""
    since_ms, interval_ms = now_ms - unit.swept_ms, unit._job.checkpoint.interval_ms
    if since_ms < interval_ms:
        return f"interval: swept {since_ms:.0f} ms after its last sweep, and not {interval_ms}"
    waits = not unit.sinkmost and not unit.output_trimmed
    if waits and since_ms < UNTRIMMED_INTERVALS * interval_ms:
        return f"sweep order: swept {since_ms:.0f} ms after its last sweep, and its output was not trimmed since"
    return ""


def _tick(terms: CheckpointPolicy, at_ms: float) -> int:
    return int(at_ms // terms.interval_ms)
