"""Takeovers for people: each with its phases, beside its promise and prediction, folded from `events`.

Source: PROTOCOL 13, MECHANISMS A3 and P13. A takeover begins with an event `decided` after a failure or a drill; the
    new leader reports its phases (`unit-active`), and recovery judges them.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from holdfast.schemas.events import Alternative, Event
from holdfast.services.recovery.core.unit.table.reasons import FAILURES
from holdfast.services.recovery.core.unit.table.signs import Sign
from holdfast.services.view.happenings import copies_of, sign_of

MOST = 500
"""Number of takeovers kept, the newest."""
_BEGINS = {*(one.value for one in FAILURES), Sign.DRILL_ASKED.value}
Key = tuple[str, str, int]
"""Key of a takeover: job, unit, epoch of the decision."""
_JUDGED = frozenset({"takeover-judged", "promise-kept", "promise-broken"})


class Takeover(msgspec.Struct, frozen=True):
    """Takeover of one unit.

    time_ms: time of the decision, milliseconds since 1970.
    failed, leads: workers; empty: not known, or none.
    detection_ms: from the last sign of life to the decision. The other times begin at the decision; null: not (yet)
        known.
    activation_ms: until the copy works on the state it needs.
    first_output_ms: until its first batch is out.
    recovered_ms: until its progress equals that of the former leader.
    promise_ms: 0: the job has no promise.
    predicted_ms: predicted milliseconds by phase.
    kept: true if the promise was kept; null: there is none, or it is not judged yet.
    sign, move: the reason, and the reaction.
    superseded: true if another takeover of the unit began before this one was over.
    alternatives: every scheme that recovery weighed when it chose this one, the chosen scheme first; empty: recovery
        did not choose, or its event is no longer kept.
    """

    time_ms: int
    job: str
    unit: str
    epoch: int
    failed: str
    leads: str
    scheme: str
    sign: str
    move: str
    drill: bool
    detection_ms: float
    activation_ms: float | None = None
    first_output_ms: float | None = None
    recovered_ms: float | None = None
    promise_ms: float = 0.0
    predicted_ms: dict[str, float] = {}
    kept: bool | None = None
    superseded: bool = False
    alternatives: tuple[Alternative, ...] = ()

    @property
    def silent_ms(self) -> float | None:
        """Milliseconds from the last sign of life to the first output; null: not known."""
        return None if self.first_output_ms is None else self.detection_ms + self.first_output_ms

    @property
    def total_ms(self) -> float | None:
        """Milliseconds from the last sign of life until the recovery is complete; null: not known."""
        return None if self.recovered_ms is None else self.detection_ms + self.recovered_ms


class Takeovers:
    """Folds events in the order of their log."""

    def __init__(self) -> None:
        self._leader: dict[tuple[str, str], str] = {}
        self._known: OrderedDict[Key, Takeover] = OrderedDict()
        self._last: dict[tuple[str, str], Key] = {}
        self._weighed: dict[tuple[str, str], tuple[Alternative, ...]] = {}

    def read(self, event: Event) -> None:
        if event.kind in ("placed", "decided"):
            self._decided(event)
        elif event.kind == "scheme-chosen":
            self._weighed[event.job, event.unit] = event.alternatives
        elif (known := self._known.get(key := self._of(event))) is None:
            return
        elif event.kind == "unit-active":
            if known.recovered_ms is None:
                self._known[key] = _timed(known, event)
        elif event.kind in _JUDGED:
            self._known[key] = _judged(known, event)

    def _of(self, event: Event) -> Key:
        """The takeover of an event: while the takeover was under way, a new standby may have raised the epoch."""
        key = (event.job, event.unit, event.epoch)
        last = self._last.get(key[:2], key)
        return key if key in self._known or last[2] > event.epoch else last

    def newest(self, job: str = "") -> list[Takeover]:
        """The takeovers of a job, newest first; of all jobs if `job` is empty."""
        return [one for one in reversed(self._known.values()) if job in ("", one.job)]

    def _decided(self, event: Event) -> None:
        unit, sign = (event.job, event.unit), sign_of(event)
        former, leads = self._leader.get(unit, ""), "".join(copies_of(event)[:1])
        self._leader[unit] = leads
        if event.kind != "decided" or sign not in _BEGINS:
            return
        scheme, _, rest = event.detail.partition(": ")
        move = rest.removeprefix(sign).removeprefix(": ").rpartition(" (")[0]
        before = self._known.get(self._last.get(unit, (*unit, -1)))
        if before is not None and before.recovered_ms is None:
            self._known[self._last[unit]] = msgspec.structs.replace(before, superseded=True)
        self._last[unit] = (*unit, event.epoch)
        weighed = self._weighed.get(unit, ())
        self._known[self._last[unit]] = Takeover(
            event.time_ms,
            event.job,
            event.unit,
            event.epoch,
            failed=former,
            leads=leads,
            scheme=scheme,
            sign=sign,
            move=move,
            drill=sign == Sign.DRILL_ASKED.value,
            detection_ms=float(event.phases_ms.get("detection", 0.0)),
            alternatives=weighed if weighed and weighed[0].scheme == scheme else (),
        )
        while len(self._known) > MOST:
            gone, _ = self._known.popitem(last=False)
            if self._last.get(gone[:2]) == gone:
                del self._last[gone[:2]]


def _timed(known: Takeover, event: Event) -> Takeover:
    phases = event.phases_ms
    return msgspec.structs.replace(
        known,
        leads=event.worker or known.leads,
        activation_ms=phases.get("activation"),
        first_output_ms=phases.get("first_output"),
        recovered_ms=phases.get("recovered"),
    )


def _judged(known: Takeover, event: Event) -> Takeover:
    """The takeover with its judgement, and with the judge's times if the copy's own event is no longer kept."""
    kept = event.kind == "promise-kept" if event.promise_ms else None
    known = msgspec.structs.replace(known, promise_ms=event.promise_ms, predicted_ms=event.predicted_ms, kept=kept)
    phases = event.phases_ms
    if known.recovered_ms is not None or "catching-up" not in phases:
        return known
    activation = phases.get("activation", 0.0)
    return msgspec.structs.replace(known, activation_ms=activation, recovered_ms=activation + phases["catching-up"])
