"""Versions that may lead a unit, copies that have not shown equal bytes yet, and copies that differ: signs and records.

Source: PROTOCOL 8, decision 0077.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

from holdfast.schemas.assignments import Change, Copy, Differing, Unshown
from holdfast.services.kernel.plans.pinning import Fit
from holdfast.services.kernel.plurals import plural
from holdfast.services.recovery.core.unit.situation import Situation

MOST = 8
"""Largest number of versions of each kind in a record; the newest are kept."""


# -- signs ------------------------------------------------------------------------------------------------------------


def heirs(s: Situation) -> bool:
    """True if there is a copy that may take over from the primary, at once or later."""
    return any(s.may_lead(copy) and not s.gone(copy) for copy in s.others)


def newly_shown(s: Situation) -> Copy | None:
    """Returns a copy that has shown equal bytes while no record states it yet."""
    waiting = (copy for copy in s.others if not s.may_lead(copy))
    return next((copy for copy in waiting if s.proofs.shown(s.change.unit, copy)), None)


def differing(s: Situation, copy: Copy) -> Differing | None:
    """Returns the known difference of the copy's bytes."""
    return s.proofs.differing(s.change, copy, s.report(copy))


def accept_due(s: Situation) -> bool:
    """True if a user lets the present versions of the workers lead, and no record states that yet."""
    return s.asked_accept > s.change.accepted


# -- records ----------------------------------------------------------------------------------------------------------


class Versions(TypedDict):
    """The fields of a change that are about versions."""

    shown: tuple[str, ...]
    unshown: tuple[Unshown, ...]
    differ: tuple[Differing, ...]
    accepted: int


def fields(s: Situation, copies: tuple[Copy, ...], accepted: bool) -> Versions:
    """Returns the fields of the next record, with these copies.

    accepted: true if a user lets the versions lead that the workers run now.
    """
    shown, differ = _shown(s, copies), _differ(s)
    if accepted:
        shown = (*shown, *(text for text in _here(s) if text not in shown))[-MOST:]
        differ = tuple(one for one in differ if one.versions not in shown)
    unshown = tuple(one for copy in copies if (one := _unshown(s, copy)) is not None and one.versions not in shown)
    upto = s.asked_accept if accepted else s.change.accepted
    return Versions(shown=shown, unshown=unshown, differ=differ, accepted=upto)


def _here(s: Situation) -> list[str]:
    """Versions of the workers of the unit's kind that answer and are not leaving."""
    beats = (beat for beat in s.detector.alive() if beat.hosts == s.terms.host and not beat.leaving)
    return sorted({text for beat in beats if (text := s.terms.pin.text(beat.versions))})


def _shown(s: Situation, copies: tuple[Copy, ...]) -> tuple[str, ...]:
    """Returns the versions that may lead: those of the first leader, then those that have shown equal bytes."""
    before = s.terms.pin.shown(s.change)
    if not before:
        return tuple(text for copy in copies if copy.flags.commit and (text := _text(s, copy)))
    copy = newly_shown(s)
    new = None if copy is None else s.change.unshown_of(copy)
    return before if new is None else (*before, new.versions)[-MOST:]


def _unshown(s: Situation, copy: Copy) -> Unshown | None:
    """Returns the copy's entry in `unshown`, or None: a present copy keeps it, a new one gets it by its worker's
    versions.
    """
    if copy.flags.commit:
        return None
    before = next((one for one in s.change.copies if one.worker == copy.worker), None)
    if before is not None and before.incarnation == copy.incarnation:
        return s.change.unshown_of(before)
    beat = s.host(copy.worker)
    if beat is None or s.fit(beat) is Fit.EQUAL:
        return None
    return Unshown(copy.worker, s.terms.pin.text(beat.versions))


def _differ(s: Situation) -> tuple[Differing, ...]:
    new = [one for one in _differing(s) if all(one.versions != known.versions for known in s.change.differ)]
    return (*s.change.differ, *new)[-MOST:]


def _differing(s: Situation) -> Iterator[Differing]:
    return (one for copy in s.others if (one := differing(s, copy)) is not None)


def _text(s: Situation, copy: Copy) -> str:
    beat = s.host(copy.worker)
    return "" if beat is None else s.terms.pin.text(beat.versions)


# -- for people -------------------------------------------------------------------------------------------------------


def why(s: Situation, accepted: bool) -> str:
    """Returns the versions that a record is about, and the observation behind it."""
    if accepted:
        return "; ".join(_here(s))
    if (copy := newly_shown(s)) is not None and (one := s.change.unshown_of(copy)) is not None:
        return f"{one.worker}, {plural(s.proofs.equal(s.change.unit, copy), 'batch', 'batches')}: {one.versions}"
    return "; ".join(map(str, _differing(s)))


def unfinished(s: Situation) -> str:
    """Returns the progress of a new copy with other versions whose move was given up; empty for any other copy."""
    if s.may_lead(s.arriving):
        return ""
    needed = plural(s.proofs.needed, "batch", "batches")
    return f"{s.proofs.equal(s.change.unit, s.arriving)} of {needed} shown to be equal"


def found_out(before: Change | None, after: Change) -> Iterator[tuple[str, str, int, str]]:
    """Decisions of a record about versions, for events: kind, worker, batch (-1: none) and text."""
    if before is None:
        return
    if after.accepted > before.accepted:
        yield "versions-accepted", "", -1, "; ".join(text for text in after.shown if text not in before.shown)
        return
    for one in before.unshown:
        if one.versions in after.shown:
            yield "proved-equal", one.worker, -1, one.versions
    for each in after.differ:
        if each not in before.differ:
            yield "differs", each.worker, each.batch or -1, str(each)
