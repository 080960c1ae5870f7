"""Requests of users for a unit that no record has answered yet: a scheme, a rollback, a move; reasons against them.

Source: PROTOCOL 8. A drill is requested like a move: drilling.py.
"""

from __future__ import annotations

from holdfast.services.decisions.policies import ALIGNED
from holdfast.services.kernel.plans.pinning import Fit
from holdfast.services.kernel.protection import fitting
from holdfast.services.recovery.core.unit.facts.terms import AskedMove
from holdfast.services.recovery.core.unit.situation import Situation

HEARD_US = 2_000_000
"""Time after a request for a move from which a worker without heartbeats counts as not answering."""


def scheme(s: Situation) -> bool:
    """True if another scheme was asked for that works with the checkpoint policy."""
    return _scheme_due(s) and not unfit(s)


def unfit_scheme(s: Situation) -> bool:
    """True if a scheme was asked for that does not work with the checkpoint policy."""
    return _scheme_due(s) and bool(unfit(s))


def unfit(s: Situation) -> str:
    """Returns why the scheme that was asked for last does not work with the checkpoint policy; empty if it does."""
    return fitting.unfit(s.policy, s.asked.scheme)


def _scheme_due(s: Situation) -> bool:
    """True if no record has answered the request for a scheme; a choice that the controller made before it is
    undone.
    """
    asked, change = s.asked, s.change
    another = not change.adaptive if asked.adaptive else change.adaptive or asked.scheme != change.scheme
    return asked.offset > change.asked and another and not s.policy_open


def rollback(s: Situation) -> bool:
    """True if a rollback was asked for that no record has answered."""
    return s.rollback.asked > s.change.rolled


def rollback_refusal(s: Situation) -> str:
    """Returns why the unit cannot go back; empty if it can."""
    if s.terms.host:
        return "Spark has checkpoints of its own, and what it gave is in its commit log: roll back the units behind it"
    if s.policy != ALIGNED:
        return f"there are no global checkpoints under the policy {s.policy}, only under {ALIGNED}"
    if s.rollback.complete < 0:
        return "no global checkpoint is complete yet"
    late = "what sends to it has gone back to an earlier global checkpoint: ask again, for all of them"
    return late if s.rollback.late else ""


def move(s: Situation) -> AskedMove | None:
    """Returns the requested move, or drill, that no record has answered."""
    return s.asked_move if s.asked_move is not None and s.asked_move.offset > s.change.moved else None


def move_refusal(s: Situation) -> str:
    """Returns why the move that is due cannot be made; empty if it can, or if that is not known yet."""
    asked = move(s)
    if asked is None or asked.drill:
        return ""
    worker, beat = asked.worker, s.host(asked.worker)
    if worker == s.primary.worker:
        return f"{worker} runs it already"
    if beat is None:
        return f"{worker} does not answer" if s.asked_move_age_us >= HEARD_US else ""
    if beat.hosts != s.terms.host:
        return f"{worker} takes no such units"
    if s.fit(beat) is Fit.DIFFERS:
        text = s.terms.pin.text(beat.versions)
        return f"{worker} gives other bytes: {next(one for one in s.change.differ if one.versions == text)}"
    return f"{worker} is leaving" if beat.leaving else ""


def movable(s: Situation) -> bool:
    """True if the move that is due can be made now."""
    asked = move(s)
    return asked is not None and not asked.drill and not move_refusal(s) and s.host(asked.worker) is not None
