"""Events and log lines of a replica's decisions, for people. Source: PROTOCOL 13.

Each decision is published by one replica: the author of the record that states it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.schemas.assignments import Assignment, Change, split_unit_key
from holdfast.schemas.events import Event, encode
from holdfast.schemas.heartbeats import HeartbeatRecord
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.refusals import KIND as REFUSED
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.log.protocol import Appender
from holdfast.services.recovery.core.adaptive.judging import Judgement, Judging, needed, rounded
from holdfast.services.recovery.core.adaptive.wording import alternatives, lines
from holdfast.services.recovery.core.instability import Period
from holdfast.services.recovery.core.job.incident import kind_of, story_line
from holdfast.services.recovery.core.known import ReplicaView
from holdfast.services.recovery.core.unit.rules.versions import found_out
from holdfast.services.recovery.core.unit.table.reasons import BEGINS, chosen_for_promise, follows_failure, move_kind

_log = get_logger()

INSTABILITY_PHASE = "instability"
"""The phase of an event whose duration is the time for which a failure left units unprotected."""


class DecisionEvents:
    """The publisher of one replica.

    Args:
        name: of the replica.
        events: partition for events.
        now_us: monotonic clock.
        now_ms: time of day.
    """

    def __init__(
        self,
        name: str,
        known: ReplicaView,
        appender: Appender,
        events: Partition,
        now_us: Callable[[], int],
        now_ms: Callable[[], int],
    ) -> None:
        self._name = name
        self._known = known
        self._appender = appender
        self._events = events
        self._now_us = now_us
        self._now_ms = now_ms
        self._judging = Judging()
        self._signs_ms: dict[str, int] = {}
        """Time of the last heartbeat, by worker."""
        self._moves_ms: dict[str, int] = {}
        """Time at which the unit, or its standby, began to move, by unit."""
        self._last_author = ""
        self._unserved: frozenset[str] = frozenset()

    def event(self, event: Event) -> None:
        """Publishes an event.

        Refusals of records from before the start are dropped: another replica, or this one in its last life, published
        them.
        """
        if event.kind == REFUSED and not self._known.acting:
            return
        self._appender.append(self._events, encode(event))

    # -- what is read -------------------------------------------------------------------------------------------------

    def heard(self, record: HeartbeatRecord) -> None:
        """Takes a heartbeat; if two workers have one name, reports that the newer has taken the place of the older."""
        self._signs_ms[record.worker] = record.time_ms
        clash = self._known.detector.clashes.pop(record.worker, None)
        if clash is None:
            return
        newer, older = (f"process {beat.pid} at {beat.address or 'an unknown address'}" for beat in clash)
        detail = f"{newer} has taken the place of {older}, which still runs: give each host its own HOLDFAST_HOST"
        _log.warning("two workers have one name", worker=record.worker, detail=detail)
        self.event(Event(self._now_ms(), "name-clash", worker=record.worker, detail=detail))

    def decided(self, record: Assignment, before: Mapping[str, Change | None]) -> None:
        """Publishes the valid changes of a record.

        before: the last change of each unit that the record names.
        """
        for change in record.changes:
            if self._known.assigned.of(change.unit) is change:
                self._counts(record, before[change.unit], change)

    def _counts(self, record: Assignment, before: Change | None, change: Change) -> None:
        self._last_author = record.author
        mine = record.author == self._name
        foreseen = self._known.adaptive.foreseen.pop(change.unit, None)
        detection_ms = self._detection_ms(before, change)
        if mine:
            self._decided(before, change, detection_ms)
        if foreseen is not None:
            if detection_ms is None:  # a drill, or the failed worker never sent a heartbeat here
                detection_ms = foreseen.phases.detection
            self._judging.began(change.unit, foreseen, detection_ms, mine, self._now_us())
        elif change.committer is not None:
            self._judging.leads(change.unit, change.committer.worker, self._now_us())
        if change.arriving is not None or change.replacing is not None:
            self._moves_ms.setdefault(change.unit, record.time_ms)
        else:
            self._moves_ms.pop(change.unit, None)

    def took_over(self, unit: str, event: Event) -> float | None:
        """Takes an event about the unit; returns the factor of the estimate that a judged takeover took, or None."""
        if event.kind == "unit-active":
            self._judging.active(unit, event.epoch, event.worker, event.phases_ms, self._now_us())
        elif event.predicted_ms:
            self._judging.published(unit, event.epoch)
            return needed(event.phases_ms, event.predicted_ms)
        return None

    # -- decisions ----------------------------------------------------------------------------------------------------

    def _detection_ms(self, before: Change | None, change: Change) -> float | None:
        """Returns the time since the last heartbeat of the failed leader; None if none failed, or it was never
        heard.
        """
        failed = None if before is None or not follows_failure(change) else before.committer
        if failed is None or failed.worker not in self._signs_ms:
            return None
        return float(max(self._now_ms() - self._signs_ms[failed.worker], 0))

    def _decided(self, before: Change | None, change: Change, detection_ms: float | None) -> None:
        """Publishes a change of this replica that is valid."""
        job, _, unit = split_unit_key(change.unit)
        copies = ", ".join(f"{copy.worker}{' commits' if copy.flags.commit else ''}" for copy in change.copies)
        detail = f"{change.scheme}: {change.reason} ({copies})"
        leader = "" if change.committer is None else change.committer.worker
        _log.info("decided", unit=change.unit, worker=leader, epoch=change.epoch, detail=detail)
        now_ms = self._now_ms()
        phases = {} if detection_ms is None else {"detection": detection_ms}
        if change.deadly is not None and (before is None or before.deadly is None):
            self.event(Event(now_ms, "unit-quarantined", job, unit, epoch=change.epoch, detail=change.reason))
        elif not change.copies:
            self.event(Event(now_ms, "unplaced", job, unit, epoch=change.epoch, detail=change.reason))
        elif before is None or not before.copies:
            first = change.copies[0].worker
            self.event(Event(now_ms, "placed", job, unit, epoch=change.epoch, worker=first, detail=change.reason))
        else:
            self.event(Event(now_ms, "decided", job, unit, epoch=change.epoch, detail=detail, phases_ms=phases))
        for what, worker, batch, versions in found_out(before, change):
            self.event(Event(now_ms, what, job, unit, epoch=change.epoch, worker=worker, detail=versions, batch=batch))
        self._choice(change)
        kind = move_kind(before, change)
        if kind is not None:
            since_ms = self._moves_ms.get(change.unit, now_ms)
            took = {} if kind in BEGINS else {"move": float(max(now_ms - since_ms, 0))}
            self.event(
                Event(now_ms, kind, job, unit, epoch=change.epoch, worker=leader, detail=change.reason, phases_ms=took)
            )

    def _choice(self, change: Change) -> None:
        """Publishes the controller's choice of another scheme, with the time and cost of every scheme."""
        verdict = self._known.adaptive.verdicts.pop(change.unit, None)
        if verdict is None or not chosen_for_promise(change) or verdict.chosen != change.scheme:
            return
        job, _, unit = split_unit_key(change.unit)
        _log.info("scheme-chosen", unit=change.unit, epoch=change.epoch, detail=verdict.summary)
        self.event(
            Event(
                self._now_ms(), "scheme-chosen", job, unit, epoch=change.epoch,
                detail="; ".join(lines(verdict)), promise_ms=verdict.promise_ms, alternatives=alternatives(verdict),
            )
        )  # fmt: skip

    def unexplained(self, found: list[tuple[Change, str]]) -> None:
        """Publishes records that no row of a unit's table makes: another version's, or a mistake. Empties `found`."""
        for change, why in found:
            job, _, unit = split_unit_key(change.unit)
            _log.warning("unexplained", unit=change.unit, epoch=change.epoch, why=why, reason=change.reason)
            detail = f"{why} ({change.reason})" if change.reason else why
            self.event(Event(self._now_ms(), "unexplained", job, unit, epoch=change.epoch, detail=detail))
        found.clear()

    def incidents(self, author: str) -> None:
        """Publishes decisions on incidents, at the replica that proposed them."""
        news = self._known.incidents.news
        for incident in news if author == self._name and self._known.acting else ():
            detail = story_line(incident)
            _log.info("incident", job=incident.job, number=incident.number, detail=detail)
            self.event(Event(self._now_ms(), kind_of(incident), incident.job, detail=detail))
        news.clear()

    def outages(self, author: str) -> None:
        """Publishes the beginnings and ends of outages, at the replica that proposed them."""
        news = self._known.outages.news
        for one in news if author == self._name and self._known.acting else ():
            shares = ", ".join(f"{query} {fidelity:.0%}" for query, fidelity in one.fidelity.items())
            begins = "tentative-banned" if one.banned else "outage-begins"
            kind, detail = "outage-over" if one.over else begins, f"fidelity: {shares}"
            _log.info(kind, unit=one.unit_key, number=one.number, upto=one.upto, detail=detail)
            self.event(Event(self._now_ms(), kind, one.job, one.unit, epoch=one.epoch, detail=detail, batch=one.upto))
        news.clear()

    # -- results of a turn --------------------------------------------------------------------------------------------

    def stable_again(self, found: list[Period]) -> None:
        """Publishes periods of instability, which every replica measures, at the author of the last record.

        Empties `found`.
        """
        for period in found:
            _log.info("protected-again", workers=period.workers, units=len(period.units), ms=period.lasted_us / 1000)
            if self._last_author == self._name:
                took = {INSTABILITY_PHASE: period.lasted_us / 1000}
                worker, detail = period.workers[0], str(period)
                self.event(Event(self._now_ms(), "protected-again", worker=worker, detail=detail, phases_ms=took))
        found.clear()

    def unserved(self) -> None:
        """Publishes units whose standbys have no place, or have one again, at the author of the last record."""
        unserved = self._known.sharing.unserved
        changed = self._unserved.symmetric_difference(unserved)
        self._unserved = frozenset(unserved)
        for key in sorted(changed) if self._last_author == self._name else ():
            job, _, unit = split_unit_key(key)
            kind = "standby-has-no-place" if key in unserved else "standby-has-a-place"
            self.event(Event(self._now_ms(), kind, job, unit, detail=unserved.get(key, "")))

    def judged(self, now_us: int) -> None:
        """Publishes durations of takeovers beside the predictions and promises."""
        for key, judgement in self._judging.due(now_us):
            self._judged(key, judgement)

    def _judged(self, key: str, judgement: Judgement) -> None:
        job, _, unit = split_unit_key(key)
        foreseen = judgement.foreseen
        _log.info("takeover judged", unit=key, epoch=foreseen.epoch, kept=judgement.kept, detail=str(judgement))
        self.event(
            Event(
                self._now_ms(),
                judgement.kind,
                job,
                unit,
                epoch=foreseen.epoch,
                worker=foreseen.worker,
                detail=str(judgement),
                phases_ms=rounded(judgement.actual),
                promise_ms=foreseen.promise_ms,
                predicted_ms=rounded(judgement.predicted),
            )
        )
