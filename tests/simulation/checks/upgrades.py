"""Workers with other versions: who leads has shown equal bytes, as the trace has it; and deliberate bugs of that rule.

Source: decision 0077. Workers with OTHER versions give equal bytes, those with ODD ones do not: tests/support/odd.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from holdfast.schemas import assignments, heartbeats
from holdfast.schemas.assignments import Change, Copy
from holdfast.schemas.heartbeats import DID_NOTHING, Heartbeat
from holdfast.schemas.plans import Plan
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.kernel.plans.pinning import Fit, Pin
from holdfast.services.kernel.versions import text_of
from holdfast.services.recovery.core.unit.facts import proving
from holdfast.services.recovery.core.unit.facts.proving import Proofs
from tests.simulation.kafka.broker import Written, decision_of
from tests.simulation.kafka.names import TOPICS
from tests.simulation.processes.services import ODD_VERSIONS, OTHER_VERSIONS, PROOF

NAME = "odd"
"""Name of the operator, and of its units."""


def check(written: list[Written]) -> Iterator[str]:
    """No copy leads a unit whose versions have not shown so many equal batches, unless the user has accepted them; nor,
    where bytes differ, an odd one.
    """
    assigned, seen = Assigned(), _Seen()
    versions: dict[str, Mapping[str, str]] = {}
    odd, accepted = set[str](), defaultdict[str, set[str]](set)
    for one in written:
        if one.partition.topic == TOPICS.plans and isinstance(decision := decision_of(one), Plan):
            odd |= {unit.name for unit in decision.units if NAME in unit.operators}
        if one.partition.topic == TOPICS.heartbeats and isinstance(beat := heartbeats.decode(one.value), Heartbeat):
            versions[beat.incarnation] = beat.versions
            seen.read(beat, assigned)
        if one.partition.topic == TOPICS.assignments:
            before = assigned.units()
            for change in assigned.read(assignments.decode(one.value)):
                was = before.get(change.unit)
                if was is not None and change.accepted > was.accepted:
                    accepted[change.unit] |= set(change.shown) - set(was.shown)
                yield from _led(was, change, versions, seen, odd, accepted[change.unit])


def _led(
    before: Change | None,
    change: Change,
    versions: Mapping[str, Mapping[str, str]],
    seen: _Seen,
    odd: set[str],
    accepted: set[str],
) -> Iterator[str]:
    leader = change.committer
    if leader is None or (before is not None and before.committer is not None and _same(before.committer, leader)):
        return
    has = versions.get(leader.incarnation, {})
    where = f"{change.unit}#{change.epoch} is led by {leader.worker}, which has {dict(has)}"
    if has == ODD_VERSIONS and change.unit.rpartition("/")[2] in odd:
        yield f"differing: {where}"
    elif (
        text_of(has) not in accepted
        and has in (ODD_VERSIONS, OTHER_VERSIONS)
        and (count := seen.equal(change.unit, has)) < PROOF
    ):
        yield f"unproved: {where}: {count} of {PROOF} batches were equal"


def _same(one: Copy, other: Copy) -> bool:
    return (one.worker, one.incarnation) == (other.worker, other.incarnation)


class _Seen:
    """Reports of batches, by unit and versions: those of the plan, and others."""

    def __init__(self) -> None:
        self._digests: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)

    def read(self, beat: Heartbeat, assigned: Assigned) -> None:
        for report in beat.copies:
            self._digests[report.unit, repr(beat.versions)].update(report.shows)

    def equal(self, unit: str, versions: Mapping[str, str]) -> int:
        """Batches of which workers with these versions, and with any others, have reported the same."""
        mine = self._digests[unit, repr(versions)]
        others = [them for (name, kind), them in self._digests.items() if name == unit and kind != repr(versions)]
        same = [digest for batch, digest in mine.items() if any(them.get(batch) == digest for them in others)]
        return len(same) - same.count(DID_NOTHING)


# -- bugs -------------------------------------------------------------------------------------------------------------


def given_to_any_versions() -> AbstractContextManager[object]:
    """A copy with other versions leads at once."""
    return mock.patch.object(Pin, "fit", return_value=Fit.EQUAL)


def accepted_once_and_for_all() -> AbstractContextManager[object]:
    """Accepts any later versions where a person has let some versions lead."""

    def fit(self: Pin, change: Change, versions: Mapping[str, str]) -> Fit:
        return Fit.EQUAL if change.accepted >= 0 else true(self, change, versions)

    true = Pin.fit
    return mock.patch.object(Pin, "fit", fit)


def shown_by_one_batch() -> AbstractContextManager[object]:
    """The first equal batch counts for all."""
    return mock.patch.object(Proofs, "shown", lambda self, unit, copy: self.equal(unit, copy) > 0)


def differing_batches_counted() -> AbstractContextManager[object]:
    """Counts a batch that both have done: a copy with other bytes leads."""

    def compare(one: Any, true: Mapping[int, int]) -> None:
        real(one, {batch: one.digests[batch] for batch in one.digests.keys() & true.keys()})

    real = proving._compare
    return mock.patch.object(proving, "_compare", compare)
