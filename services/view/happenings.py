"""Events for people: each failure is one line, with the worker, the units that it led, and the silence of each.

Each failure leaves dozens of events: notices, decisions and phases of every unit. Source: JOBS "events". Events do not
name the failed worker: it is the copy that a unit had before a decision, and no longer has after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from holdfast.schemas.events import Event
from holdfast.services.kernel.plurals import plural
from holdfast.services.recovery.core.unit.table.reasons import FAILURES, LOSSES
from holdfast.services.recovery.core.unit.table.signs import Sign

ROUTINE = frozenset({
    "placed", "decided", "unplaced", "unit-active", "move-begins", "standby-moves", "standby-moved", "protected-again",
    "worker-crashed", "promise-kept", "frames-missing", "snapshot-differs",
})  # fmt: skip
"""Kinds that explain a line about a failure or a move, or that do not matter to people while all is well."""
OF_COPIES = re.compile(r"copy-(?!failed)")
"""Kinds of each step of each copy; a failed copy is no routine."""
TOGETHER_MS = 5_000
"""Milliseconds within which the effects of a worker's death on its units appear, also if some units are back on it
already.
"""
GIVEN_UP_MS = 60_000
"""Milliseconds without an event of a lost unit after which its line is complete."""
SHOWN_MS = 50.0
"""Shorter times without protection, in milliseconds, would be shown as 0.0 s."""
_COPIES = re.compile(r"\(([^()]*)\)$")
_SILENT = frozenset({Sign.PRIMARY_SILENT.value, Sign.PRIMARY_GIVEN_UP.value})
_FAILURES, _LOSSES = ({one.value for one in signs} for signs in (FAILURES, LOSSES))
Unit = tuple[str, str]
"""Job and unit."""


@dataclass(frozen=True, slots=True)
class Happening:
    """A line for people.

    kind: `failure`, or the event's kind.
    count: number of equal lines in a row.
    """

    time_ms: int
    kind: str
    text: str
    count: int = 1

    def __str__(self) -> str:
        return self.text if self.count == 1 else f"{self.text} ({self.count:,} times)"


@dataclass(slots=True)
class Loss:
    """Loss of one unit.

    epoch: epoch of the decision.
    leads: worker of the new leader; empty: none leads yet.
    silent_ms: from the last sign of life to the new leader's first output; None: not known.
    """

    epoch: int
    leads: str
    detection_ms: float = 0.0
    silent_ms: float | None = None


@dataclass(slots=True)
class Failure:
    """Failure of one worker.

    fell_silent: true if no process reported its end.
    leaders: units that it led.
    standbys: units whose standby it was.
    told: true once the new leaders of all units have reported.
    """

    time_ms: int
    worker: str
    fell_silent: bool
    leaders: dict[Unit, Loss] = field(default_factory=dict)
    standbys: list[Unit] = field(default_factory=list)
    how: str = ""
    over: bool = False
    protected_ms: float | None = None

    @property
    def told(self) -> bool:
        return bool(self.leaders) and all(one.silent_ms is not None for one in self.leaders.values())

    def happening(self, job: str) -> Happening:
        """The line of the failure.

        job: the only job of the line; if empty, each unit is named with its job.
        """
        name = (lambda unit: unit[1]) if job else "/".join
        what = "was silent" if self.fell_silent else "died"
        parts = [f"{self.worker} {what}" + (f" ({self.how})" if self.how else "")]
        parts += [f"{name(unit)} {_silence(loss)}" for unit, loss in sorted(self.leaders.items())]
        if self.standbys:
            parts.append(f"standby of {', '.join(name(unit) for unit in sorted(self.standbys))}")
        if self.protected_ms is not None:
            after = f"after {self.protected_ms / 1000:.1f} s" if self.protected_ms >= SHOWN_MS else "at once"
            parts.append(f"all protected again {after}")
        return Happening(self.time_ms, "failure", f"{parts[0]}: {'; '.join(parts[1:])}")


def _silence(loss: Loss) -> str:
    where = f", {loss.leads} leads" if loss.leads else ", no worker leads"
    return ("silent" if loss.silent_ms is None else f"silent for {loss.silent_ms:,.0f} ms") + where


class Story:
    """Takes events in the order of their log; returns lines once they are complete.

    Args:
        job: the job whose events count, beside events without a job; empty: all jobs.
    """

    def __init__(self, job: str = "") -> None:
        self._job = job
        self._copies: dict[Unit, tuple[str, ...]] = {}
        self._failures: dict[str, Failure] = {}
        self._crashed: dict[str, tuple[int, str]] = {}
        self._down: set[tuple[str, Unit]] = set()
        """Workers that failed, and have not led or got a copy of the unit again since."""
        self._told: list[Failure] = []
        """Failures after which the same worker has failed once more."""

    def read(self, event: Event) -> list[Happening]:
        """Lines that are complete with this event."""
        if self._job and event.job not in ("", self._job):
            return []
        if event.kind in ("placed", "decided"):
            self._placed(event)
        elif event.kind == "unit-active":
            self._active(event)
        elif event.kind == "worker-crashed":
            self._crashed[event.worker] = event.time_ms, event.detail
        elif event.kind == "protected-again":
            for failure in self._failures.values():
                failure.protected_ms, failure.over = event.phases_ms.get("instability"), True
        done = self._done(event.time_ms)
        if event.kind in ROUTINE or OF_COPIES.match(event.kind):
            return done
        return [*done, Happening(event.time_ms, event.kind, _text(event, self._job))]

    def rest(self) -> list[Happening]:
        """The lines of failures that are still under way."""
        left = [one.happening(self._job) for one in [*self._told, *self._failures.values()]]
        self._failures.clear()
        self._told.clear()
        return left

    def _done(self, now_ms: int) -> list[Happening]:
        done = [
            name
            for name, one in self._failures.items()
            if one.over or now_ms - one.time_ms > GIVEN_UP_MS or (one.told and now_ms - one.time_ms > TOGETHER_MS)
        ]
        told = [*self._told, *(self._failures.pop(name) for name in done)]
        self._told.clear()
        return [one.happening(self._job) for one in told]

    def _placed(self, event: Event) -> None:
        unit, before = (event.job, event.unit), self._copies.get((event.job, event.unit), ())
        sign = sign_of(event)
        now = self._copies[unit] = copies_of(event)
        for worker in now:
            if worker not in before or worker == now[0]:
                self._down.discard((worker, unit))
        if sign in _LOSSES and before:
            for worker in [one for one in before if one not in now] or [before[0]]:
                self._lost(event, unit, worker, led=sign in _FAILURES and worker == before[0], sign=sign)

    def _lost(self, event: Event, unit: Unit, worker: str, *, led: bool, sign: str) -> None:
        """Adds the loss of a unit to its worker's failure; later steps of a known loss add nothing."""
        if (worker, unit) in self._down:
            return
        self._down.add((worker, unit))
        failure = self._failures.get(worker)
        if failure is None or unit in failure.leaders:
            if failure is not None:
                self._told.append(failure)
            failure = self._failures[worker] = Failure(event.time_ms, worker, sign in _SILENT)
        crashed_ms, how = self._crashed.pop(worker, (0, ""))
        if event.time_ms - crashed_ms <= TOGETHER_MS:
            failure.how = how
        if led:
            leads = self._copies[unit][:1]
            failure.leaders[unit] = Loss(event.epoch, "".join(leads), float(event.phases_ms.get("detection", 0)))
        elif unit not in failure.standbys:
            failure.standbys.append(unit)

    def _active(self, event: Event) -> None:
        """Notes that the new leader works, in the newest failure that lost the unit before the event."""
        unit = (event.job, event.unit)
        for failure in self._failures.values():
            loss = failure.leaders.get(unit)
            if loss is not None and loss.silent_ms is None and event.epoch >= loss.epoch:
                first = event.phases_ms.get("first_output")
                loss.silent_ms = None if first is None else loss.detection_ms + first
                loss.leads = event.worker or loss.leads


def sign_of(event: Event) -> str:
    """The sign in an event `decided`; empty for another event."""
    return event.detail.partition(": ")[2].split(": ")[0] if event.kind == "decided" else ""


def copies_of(event: Event) -> tuple[str, ...]:
    """Workers of a unit's copies, the leader first."""
    if event.kind == "placed":
        return (event.worker,)
    found = _COPIES.search(event.detail)
    listed = [one.strip() for one in found[1].split(",")] if found else []
    leads = [one.removesuffix(" commits") for one in listed if one.endswith(" commits")]
    return (*leads, *(one for one in listed if one and not one.endswith(" commits")))


def _text(event: Event, job: str) -> str:
    where = " ".join(filter(None, ("" if event.job == job else event.job, event.unit, event.worker)))
    phases = ", ".join(f"{phase} {ms:,.0f} ms" for phase, ms in event.phases_ms.items())
    return " ".join(filter(None, (event.kind, where, *([f"({phases})"] if phases else []), event.detail)))


def happenings_of(events: Iterable[Event], job: str = "") -> list[Happening]:
    """All lines, oldest first; equal lines in a row become one with their number."""
    story = Story(job)
    found = [line for event in events for line in story.read(event)]
    return list(counted(sorted([*found, *story.rest()], key=lambda one: one.time_ms)))


def counted(happenings: Iterable[Happening]) -> Iterator[Happening]:
    """Joins equal lines in a row, with their number; each failure stays a line of its own."""
    last: Happening | None = None
    for one in happenings:
        if last is not None and one.kind != "failure" and (last.kind, last.text) == (one.kind, one.text):
            last = Happening(last.time_ms, last.kind, last.text, last.count + 1)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def summary(happenings: Iterable[Happening]) -> str:
    """Number of failures, and the last failure; empty if there was none."""
    failures = [one for one in happenings if one.kind == "failure"]
    return f"{plural(len(failures), 'failure')}, the last: {failures[-1]}" if failures else ""
