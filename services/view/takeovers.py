"""Takeovers for people: each with its phases, beside what was promised and predicted, folded from `events`.

Source: PROTOCOL 13, MECHANISMS A3 and P13. A takeover begins with a record `decided` that a failure or a drill asked
for; the copy that leads since reports its phases (`unit-active`), and recovery judges them.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from holdfast.schemas.events import Event
from holdfast.services.recovery.core.unit.reasons import FAILURES
from holdfast.services.recovery.core.unit.signs import Sign
from holdfast.services.view.happenings import copies_of, sign_of

MOST = 500
"""Takeovers that are kept, the newest."""
_BEGINS = {*(one.value for one in FAILURES), Sign.DRILL_ASKED.value}
_JUDGED = frozenset({"takeover-judged", "promise-kept", "promise-broken"})


class Takeover(msgspec.Struct, frozen=True):
    """Takeover of one unit.

    time_ms: of the decision, time of day.
    failed, leads: workers; empty: not known, or none.
    detection_ms: from the last sign of life to the decision. The other times begin at the decision, null: not (yet)
        known.
    activation_ms: until the copy works on the state it needs.
    first_output_ms: until its first batch is out.
    recovered_ms: until it is as far as the copy before it.
    promise_ms: 0: nobody was promised anything.
    predicted_ms: by phase.
    kept: the promise; null: there is none, or it is not judged yet.
    sign, move: the reason, and the reaction.
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

    @property
    def silent_ms(self) -> float | None:
        """From the last sign of life to the first output; null: not known."""
        return None if self.first_output_ms is None else self.detection_ms + self.first_output_ms

    @property
    def total_ms(self) -> float | None:
        """From the last sign of life until all is as before; null: not known."""
        return None if self.recovered_ms is None else self.detection_ms + self.recovered_ms


class Takeovers:
    """Takes events in the order of their log."""

    def __init__(self) -> None:
        self._leader: dict[tuple[str, str], str] = {}
        self._known: OrderedDict[tuple[str, str, int], Takeover] = OrderedDict()

    def read(self, event: Event) -> None:
        key = (event.job, event.unit, event.epoch)
        if event.kind in ("placed", "decided"):
            self._decided(event)
        elif (known := self._known.get(key)) is None:
            return
        elif event.kind == "unit-active":
            self._known[key] = _timed(known, event)
        elif event.kind in _JUDGED:
            kept = event.kind == "promise-kept" if event.promise_ms else None
            judged = {"promise_ms": event.promise_ms, "predicted_ms": event.predicted_ms, "kept": kept}
            self._known[key] = msgspec.structs.replace(known, **judged)

    def newest(self, job: str = "") -> list[Takeover]:
        """The newest first. job: only of this one; empty: of all."""
        return [one for one in reversed(self._known.values()) if job in ("", one.job)]

    def _decided(self, event: Event) -> None:
        unit, sign = (event.job, event.unit), sign_of(event)
        former, leads = self._leader.get(unit, ""), "".join(copies_of(event)[:1])
        self._leader[unit] = leads
        if event.kind != "decided" or sign not in _BEGINS:
            return
        scheme, _, rest = event.detail.partition(": ")
        move = rest.removeprefix(sign).removeprefix(": ").rpartition(" (")[0]
        self._known[event.job, event.unit, event.epoch] = Takeover(
            event.time_ms,
            event.job,
            event.unit,
            event.epoch,
            former,
            leads,
            scheme,
            sign,
            move,
            sign == Sign.DRILL_ASKED.value,
            float(event.phases_ms.get("detection", 0.0)),
        )
        while len(self._known) > MOST:
            self._known.popitem(last=False)


def _timed(known: Takeover, event: Event) -> Takeover:
    phases = event.phases_ms
    return msgspec.structs.replace(
        known,
        leads=event.worker or known.leads,
        activation_ms=phases.get("activation"),
        first_output_ms=phases.get("first_output"),
        recovered_ms=phases.get("recovered"),
    )
