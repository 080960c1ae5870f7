"""Decides how a copy reacts to users' code that raises: the copy sends or holds its output, and skips some rows.

Source: PROTOCOL 3. The leader announces itself in the cut log and sends nothing before. Where code raises, the leader
proposes the rows to skip, and every copy waits for the decision in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from holdfast.schemas.cuts import Leading, Raised, TaskRaised
from holdfast.schemas.decided import Id


class Step(Enum):
    """Next steps of the copy."""

    WAIT = "nothing"
    ANNOUNCE = "hold what would leave, and announce the leader"
    HOLD = "another copy leads: hold what would leave"
    LET_OUT = "let out what is held"
    PROPOSE = "propose where the code raised"
    CONTINUE = "the batch is done: the cut log says of it what the copy found"
    REBUILD = "restore, and do the batch as the cut log says"
    DIVERGE = "what left, or is in a checkpoint, is not what the cut log says: stop"


@dataclass(frozen=True, slots=True)
class RaisingView:
    """A copy's view of its unit.

    Attributes:
        commits, processes: its flags.
        epoch: epoch of the flags.
        announced: its own announcement in this life; None before the first.
        announced_epoch: epoch of that announcement.
        leading: leadership of the unit in the cut log.
        holds: True if its outputs are held.
        opened: True if its rows can be delivered.
        sent: last batch whose frames this copy has sent.
        out: last batch of which any copy's rows or frames are known to be sent.
        marker: batch of the last valid checkpoint.
        strict: True if rows sent in two versions end the copy.
        held: batch in which the code raised without a decision in the cut log; 0 for none.
        found: the rows that raised, by task.
        record: present decision in the cut log about that batch.
        proposed: True if a proposal is on its way.
        missed: batch that was done before the cut log decided that its code raised; 0 for none.
        wrong: part of a checkpoint that contradicts the cut log; empty for none.
    """

    commits: bool
    processes: bool = True
    epoch: int = 0
    announced: Id | None = None
    announced_epoch: int = 0
    leading: Leading | None = None
    holds: bool = False
    opened: bool = False
    sent: int = 0
    out: int = 0
    marker: int = 0
    strict: bool = True
    held: int = 0
    found: Mapping[str, TaskRaised] = field(default_factory=dict)
    record: Raised | None = None
    proposed: bool = False
    missed: int = 0
    wrong: str = ""

    @property
    def leads(self) -> bool:
        """True if its announcement is the valid one."""
        return self.announced is not None and self.leading is not None and self.leading.id == self.announced

    @property
    def unannounced(self) -> bool:
        """True if the copy must announce itself: for the first time, or because another copy led meanwhile at an epoch
        that this copy missed."""
        if self.announced is None:
            return True
        return self.leading is not None and self.announced_epoch < self.leading.epoch < self.epoch


def next_step(view: RaisingView) -> tuple[Step, str]:
    """The next step, and the reason as text for people."""
    if view.wrong:
        return Step.DIVERGE, view.wrong
    if view.missed:
        why = f"batch {view.missed} was done as if its code had not raised, and the cut log says that it did"
        return (Step.DIVERGE if view.missed <= view.sent and view.strict else Step.REBUILD), why
    if view.commits and view.unannounced:
        return Step.ANNOUNCE, ""
    if view.holds and (view.leads or not view.commits):
        return Step.LET_OUT, ""
    if view.commits and not view.holds and not view.leads:
        return Step.HOLD, ""
    return _of_held(view) if view.held else (Step.WAIT, "")


def _of_held(view: RaisingView) -> tuple[Step, str]:
    if view.record is not None:
        if view.record.tasks == view.found:
            return Step.CONTINUE, ""
        return Step.REBUILD, f"in batch {view.held} code raised at other rows than the cut log says"
    if view.marker >= view.held or not view.processes:
        return Step.REBUILD, f"code raised in batch {view.held}, and its unit has left it behind"
    if view.leading is not None and view.leading.batch > view.held:
        return Step.DIVERGE, f"code raised in batch {view.held}, where another copy's did not, as the cut log says"
    if not (view.commits and view.leads and view.opened) or view.proposed:
        return Step.WAIT, ""
    if view.out >= view.held:
        return Step.DIVERGE, f"code raised in batch {view.held}, which has left as if it had not"
    return Step.PROPOSE, ""
