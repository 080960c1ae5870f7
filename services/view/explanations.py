"""Explanations of units' schemes: takeover time and cost of each scheme, and the conditions for another choice.

Source: MECHANISMS A2 to A5. The controller of adaptive units folds the same records by the same functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

import msgspec

from holdfast.schemas.assignments import Change, unit_key
from holdfast.schemas.events import Alternative, Event
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import Plan
from holdfast.services.kernel.liveness.detector import MIN_GRACE_US
from holdfast.services.recovery.core.adaptive.controller import Adaptive
from holdfast.services.recovery.core.adaptive.judging import needed as needed_factor
from holdfast.services.recovery.core.adaptive.wording import alternatives
from holdfast.services.recovery.core.unit.facts.terms import Terms, terms
from holdfast.services.recovery.core.unit.facts.verdict import Estimate, Verdict, keeps, unknown

BEAT_MS = 100.0
"""Milliseconds between two heartbeats of a worker, assumed while fewer than two are known."""


class Explanation(msgspec.Struct, frozen=True):
    """Explanation of one unit's scheme.

    scheme: the present scheme.
    chosen: the scheme that suits the promise best, if it is another one.
    promise_ms, precision, weights: terms of its job.
    decided_ms, decision: time and reason of recovery's last choice; 0 and empty: none, or its event is no longer kept.
    alternatives: empty while there are no measurements of its leader.
    changes: conditions under which a scheme with lower cost would be chosen.
    """

    unit: str
    scheme: str
    adaptive: bool
    promise_ms: float
    precision: str
    weights: dict[str, float]
    chosen: str = ""
    decided_ms: int = 0
    decision: str = ""
    alternatives: tuple[Alternative, ...] = ()
    changes: tuple[str, ...] = ()


def explain(
    plan: Plan, changes: Mapping[str, Change | None], beats: Sequence[Heartbeat], events: Iterable[Event]
) -> list[Explanation]:
    """Explanations of the units of a job that have copies and run on workers.

    Args:
        changes: the last valid change of each unit, by name.
        beats: heartbeats of the last seconds, in the order of the log.
        events: events of the cluster, in the order of the log.
    """
    beat_us = round(_interval_ms(beats) * 1000)
    adaptive, now_us = Adaptive(beat_us), max((beat.time_ms for beat in beats), default=0) * 1000
    placed = {unit: change for unit, change in changes.items() if change is not None and change.copies}
    for change in placed.values():
        adaptive.decided(None, change, 0)
    for beat in beats:
        adaptive.read(beat, beat.time_ms * 1000)
    known = list(events)
    for event in known:
        if event.job == plan.job and event.unit in placed and event.predicted_ms:
            adaptive.judged(placed[event.unit].unit, needed_factor(event.phases_ms, event.predicted_ms))
    last = {event.unit: event for event in known if (event.kind, event.job) == ("scheme-chosen", plan.job)}
    last = {unit: event for unit, event in last.items() if _made(event, placed.get(unit))}
    asked = terms(plan)
    return [
        _explanation(unit, change, of, adaptive, beats, now_us, last.get(unit))
        for unit, change in placed.items()
        if not (of := asked[unit_key(plan.job, plan.generation, unit)]).host
    ]


def _explanation(
    unit: str,
    change: Change,
    asked: Terms,
    adaptive: Adaptive,
    beats: Sequence[Heartbeat],
    now_us: int,
    last: Event | None,
) -> Explanation:
    verdict = adaptive.verdict(change, asked, MIN_GRACE_US, now_us, _lag(change, beats))
    return Explanation(
        unit,
        change.scheme,
        change.adaptive,
        asked.promise.recovery_ms,
        precision="exact" if asked.promise.exact else "gap",
        weights=dict(asked.promise.weights),
        chosen="" if verdict is None or verdict.chosen == change.scheme else verdict.chosen,
        decided_ms=0 if last is None else last.time_ms,
        decision="" if last is None else last.detail.partition(";")[0],
        alternatives=() if verdict is None else alternatives(verdict),
        changes=() if verdict is None else tuple(needed(verdict)),
    )


def _made(event: Event, change: Change | None) -> bool:
    """True if the unit still has the scheme that the event chose."""
    chosen = event.alternatives[0].scheme if event.alternatives else ""
    return change is not None and change.adaptive and event.epoch <= change.epoch and chosen == change.scheme


def needed(verdict: Verdict) -> Iterator[str]:
    """Conditions that keep each cheaper scheme from being chosen, in words; the cheapest first."""
    chosen = verdict.of(verdict.chosen)
    cheaper = [one for one in verdict.estimates if one.cost < chosen.cost and not keeps(one, verdict)]
    for one in sorted(cheaper, key=lambda one: (one.cost, one.total_ms)):
        if one.scheme != "none":
            yield f"{one.scheme} ({one.cost:.2f} instead of {chosen.cost:.2f}): {_missing(one, verdict)}"


def _missing(one: Estimate, verdict: Verdict) -> str:
    if math.isinf(one.total_ms):
        return f"{unknown(one.phases)} would have to be known, and end"
    over_ms, named = one.total_ms - verdict.promise_ms, one.phases.named()
    longest = max(named, key=lambda name: named[name])
    shorter = f", or {longest} shorter by that, of {named[longest]:.0f} ms" if named[longest] > over_ms > 0 else ""
    return f"recovery_time_ms would have to be {max(over_ms, 0):.0f} ms longer, with 10 % to spare{shorter}"


def _interval_ms(beats: Sequence[Heartbeat]) -> float:
    """Median time in milliseconds between two heartbeats of one worker."""
    times: dict[tuple[str, str], list[int]] = {}
    for beat in beats:
        times.setdefault((beat.worker, beat.incarnation), []).append(beat.time_ms)
    gaps = [after - before for one in times.values() for before, after in pairwise(one)]
    return float(median(gaps)) if gaps else BEAT_MS


def _lag(change: Change, beats: Sequence[Heartbeat]) -> int:
    """Number of batches by which an active secondary is behind the leader, by the last heartbeat of each; 0 without
    such a secondary.
    """
    if len(change.copies) < 2 or not change.copies[1].flags.process:
        return 0
    reached: dict[tuple[str, str], int] = {}
    for beat in beats:
        for copy in beat.copies:
            if copy.unit == change.unit:
                reached[beat.worker, beat.incarnation] = copy.batch
    leader, other = (reached.get((copy.worker, copy.incarnation), 0) for copy in change.copies[:2])
    return max(0, leader - other)
