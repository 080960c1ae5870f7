"""Blame after an outage of the broker: no worker that was heard as lately as a cluster that settles allows
(docs/decisions/0114), judged by when heartbeats were heard and not by the grace that the detector reckons with.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from unittest import mock

from holdfast.schemas.assignments import Change
from holdfast.services.kernel.liveness import attention
from holdfast.services.kernel.liveness.attention import Attention
from holdfast.services.kernel.liveness.detector import UNSETTLED_GRACE_BEATS
from holdfast.services.recovery.core.known import ReplicaView
from holdfast.services.recovery.core.unit.table.signs import Sign
from holdfast.services.recovery.replica import Replica

BLAMES = (f"{Sign.PRIMARY_SILENT.value}: ", f"{Sign.PRIMARY_GIVEN_UP.value}: ")


def watch(replica: Replica) -> None:
    """Looks at everything that the replica proposes, as it does."""
    append, known = replica._append, replica.core.known

    def watched(changes: Iterable[Change]) -> None:
        proposed = tuple(changes)
        _unhurried(known, proposed)
        append(proposed)

    replica._append = watched  # type: ignore[method-assign]


def _unhurried(known: ReplicaView, proposed: Iterable[Change]) -> None:
    clock = known.attention
    if not clock.resumed or clock.attentive_us - clock.resumed[-1] >= attention.UNSETTLED_US:
        return
    least_us = known.detector._beat_us * (1 + UNSETTLED_GRACE_BEATS)
    for change in proposed:
        if any(blame in change.reason for blame in BLAMES):
            primary = known.assigned.units()[change.unit].copies[0]
            pulse = known.detector.newest(primary.worker)
            silent_us = least_us if pulse is None else clock.attentive_us - pulse.heard_us
            assert silent_us >= least_us, f"{change.unit}: {primary.worker} was heard {silent_us} us ago"


def settled_at_once() -> AbstractContextManager[object]:
    """After an outage of the broker workers are to be as punctual as before."""
    return mock.patch.object(Attention, "unsettled", False)
