"""The life of one generation of a job, from its record on `jobs.submit` to its `ended` on `jobs.plans`.

Source: PROTOCOL 1, 8 and 9. To change the controller's reaction to an event of a job, change one row of TRANSITIONS.
Every step is derived from the logs, so a controller that starts again takes the same steps again. Each action is
harmless if the same or another replica did it before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Phase(Enum):
    """Phases of a job."""

    SUBMITTED = "submitted"
    DRAFTING = "drafting"
    DECIDING = "deciding"
    ADMITTED = "admitted"
    CREATING = "creating"
    PLACING = "placing"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPING = "stopping"
    FENCING = "fencing"
    DELETING = "deleting"
    ENDING = "ending"
    ENDED = "ended"
    REJECTED = "rejected"


class Step(Enum):
    """Steps of a job."""

    TURN_CAME = "every earlier job of its name is decided"
    DRAFTED = "a plan, or what is wrong with the job, is known"
    PLAN_READ = "its plan was read back as valid"
    REJECTION_READ = "its rejection was read back as valid"
    CLEARED = "nobody wants it stopped"
    CREATED = "its topics exist"
    PLACED = "every unit has a copy"
    DRAIN_ASKED = "it is to run out"
    RAN_OUT = "every unit has processed its end"
    STOP_ASKED = "it is cancelled, or drains and somebody has stopped it"
    STOPPED = "every unit is unplaced, and no worker that answers reports a copy"
    FENCED = "no holder of its transactional ids can write any more"
    DELETED = "its topics are gone"
    END_READ = "its end was read back as valid"


class Deed(Enum):
    """Deeds of the controller on entering a phase, and again after a failure."""

    DRAFT = "describe the user's topics and make a plan"
    PROPOSE = "append the plan or the rejection"
    CREATE = "create the generation's topics"
    DRAIN = "append the drain with the end offsets of the sources"
    FENCE = "fence every transactional id"
    DELETE = "delete the generation's topics"
    PROPOSE_END = "append the end"


_P, _S, _D = Phase, Step, Deed

TRANSITIONS: dict[tuple[Phase, Step], tuple[Phase, Deed | None]] = {
    (_P.SUBMITTED, _S.TURN_CAME): (_P.DRAFTING, _D.DRAFT),
    (_P.DRAFTING, _S.DRAFTED): (_P.DECIDING, _D.PROPOSE),
    (_P.ADMITTED, _S.CLEARED): (_P.CREATING, _D.CREATE),
    (_P.ADMITTED, _S.STOP_ASKED): (_P.STOPPING, None),
    (_P.CREATING, _S.CREATED): (_P.PLACING, None),
    # The goal is a running job in PLACING, RUNNING and DRAINING, and a stopped one in STOPPING: see controller.py.
    (_P.PLACING, _S.PLACED): (_P.RUNNING, None),
    (_P.PLACING, _S.STOP_ASKED): (_P.STOPPING, None),
    (_P.RUNNING, _S.DRAIN_ASKED): (_P.DRAINING, _D.DRAIN),
    (_P.RUNNING, _S.STOP_ASKED): (_P.STOPPING, None),
    (_P.DRAINING, _S.RAN_OUT): (_P.STOPPING, None),
    (_P.DRAINING, _S.STOP_ASKED): (_P.STOPPING, None),
    (_P.STOPPING, _S.STOPPED): (_P.FENCING, _D.FENCE),
    (_P.FENCING, _S.FENCED): (_P.DELETING, _D.DELETE),
    (_P.DELETING, _S.DELETED): (_P.ENDING, _D.PROPOSE_END),
    # Another replica may be faster at any step.
    **{
        (phase, step): (after, None)
        for phase in (_P.SUBMITTED, _P.DRAFTING, _P.DECIDING)
        for step, after in ((_S.PLAN_READ, _P.ADMITTED), (_S.REJECTION_READ, _P.REJECTED))
    },
    # The other replica may have deleted the topics before this one created them once more.
    **{
        (phase, _S.END_READ): (_P.ENDED, _D.DELETE)
        for phase in (_P.CREATING, _P.PLACING, _P.RUNNING, _P.DRAINING, _P.STOPPING, _P.FENCING, _P.DELETING)
    },
    (_P.ADMITTED, _S.END_READ): (_P.ENDED, None),
    (_P.ENDING, _S.END_READ): (_P.ENDED, None),
}
"""(next phase, deed) by (phase, step). A pair without a row changes nothing: it came too late."""

UNDECIDED = frozenset({_P.SUBMITTED, _P.DRAFTING, _P.DECIDING})
PLACED = frozenset({_P.PLACING, _P.RUNNING, _P.DRAINING})
"""Phases in which the job's goal is to run, so that units are to have copies."""
OVER = frozenset({_P.ENDED, _P.REJECTED})

STORY_LINES = 100


@dataclass(slots=True)
class Life:
    """The state machine of one job.

    story: one line for each step that changed the phase.
    """

    name: str
    phase: Phase = Phase.SUBMITTED
    story: list[str] = field(default_factory=list)

    def handle(self, step: Step) -> tuple[bool, Deed | None]:
        """Takes a step; true if the phase changed, and the deed to do now."""
        transition = TRANSITIONS.get((self.phase, step))
        if transition is None:
            return False, None
        before, (self.phase, deed) = self.phase, transition
        then = "" if deed is None else f": {deed.value}"
        self.story.append(f"{self.name}: {before.value} --{step.name.lower()}--> {self.phase.value}{then}")
        del self.story[:-STORY_LINES]
        return True, deed
