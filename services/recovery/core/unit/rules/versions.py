"""Versions that may lead a unit, copies that have yet to show equal bytes, and those that differ: signs and records.

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
"""Versions that a record names at most of each kind, the newest."""


# -- signs ------------------------------------------------------------------------------------------------------------


def heirs(s: Situation) -> bool:
    """A copy is there that may take over from the primary, whether it can at once or not."""
    return any(s.may_lead(copy) and not s.gone(copy) for copy in s.others)


def newly_shown(s: Situation) -> Copy | None:
    """A copy that has shown equal bytes, and no record says so yet."""
    waiting = (copy for copy in s.others if not s.may_lead(copy))
    return next((copy for copy in waiting if s.proofs.shown(s.change.unit, copy)), None)


def differing(s: Situation, copy: Copy) -> Differing | None:
    """The known difference of its bytes."""
    return s.proofs.differing(s.change, copy, s.report(copy))


def accept_due(s: Situation) -> bool:
    """Somebody lets the versions lead that the workers have now, and no record says so yet."""
    return s.asked_accept > s.change.accepted


# -- records ----------------------------------------------------------------------------------------------------------


class Versions(TypedDict):
    """Fields of a change."""

    shown: tuple[str, ...]
    unshown: tuple[Unshown, ...]
    differ: tuple[Differing, ...]
    accepted: int


def fields(s: Situation, copies: tuple[Copy, ...], accepted: bool) -> Versions:
    """Fields of the record that follows, with these copies. accepted: a person lets those lead that the workers have
    now.
    """
    shown, differ = _shown(s, copies), _differ(s)
    if accepted:
        shown = (*shown, *(text for text in _here(s) if text not in shown))[-MOST:]
        differ = tuple(one for one in differ if one.versions not in shown)
    unshown = tuple(one for copy in copies if (one := _unshown(s, copy)) is not None and one.versions not in shown)
    upto = s.asked_accept if accepted else s.change.accepted
    return Versions(shown=shown, unshown=unshown, differ=differ, accepted=upto)


def _here(s: Situation) -> list[str]:
    """Versions of the workers that take such units and answer."""
    beats = (beat for beat in s.detector.alive() if beat.hosts == s.terms.host and not beat.leaving)
    return sorted({text for beat in beats if (text := s.terms.pin.text(beat.versions))})


def _shown(s: Situation, copies: tuple[Copy, ...]) -> tuple[str, ...]:
    """The first leader's count; then those that have shown equal bytes."""
    before = s.terms.pin.shown(s.change)
    if not before:
        return tuple(text for copy in copies if copy.flags.commit and (text := _text(s, copy)))
    copy = newly_shown(s)
    new = None if copy is None else s.change.unshown_of(copy)
    return before if new is None else (*before, new.versions)[-MOST:]


def _unshown(s: Situation, copy: Copy) -> Unshown | None:
    """A copy that is there stays what it is; a new one is judged by what its worker says."""
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
    """Whose versions a record is about, and what was seen."""
    if accepted:
        return "; ".join(_here(s))
    if (copy := newly_shown(s)) is not None and (one := s.change.unshown_of(copy)) is not None:
        return f"{one.worker}, {plural(s.proofs.equal(s.change.unit, copy), 'batch', 'batches')}: {one.versions}"
    return "; ".join(map(str, _differing(s)))


def unfinished(s: Situation) -> str:
    """Progress of a new copy with other versions when its move was given up; empty of any other."""
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
