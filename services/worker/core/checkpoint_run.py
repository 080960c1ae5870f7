"""The steps of one checkpoint run: capture, encode, wait for acknowledgements, propose the marker, settle.

Source: PROTOCOL 6, MECHANISMS S1 to S3. A marker for b is proposed only after every frame <= b is acknowledged and
every transaction <= b is committed. The ack is published only after the marker was read back as valid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Phase(Enum):
    """Phases of the current run."""

    RESTING = "resting"
    ENCODING = "encoding"
    FLUSHING = "flushing"
    DECIDING = "deciding"
    SETTLING = "settling"


@dataclass(frozen=True, slots=True)
class Due:
    """The policy asks for a checkpoint of batch `batch`."""

    batch: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """All parts of the run are appended to the log."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """Every frame, part and transaction up to `batch` is acknowledged."""

    batch: int


@dataclass(frozen=True, slots=True)
class MarkerRead:
    """The copy has read its own marker back."""

    valid: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """The image holds the run."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Another copy's run came first, or this copy lost commit, so the run under way cannot become valid."""


Event = Due | Encoded | Flushed | MarkerRead | Settled | Abandoned


class Action(Enum):
    """Actions for the shell."""

    CAPTURE = "freeze the dirty keys"
    PROPOSE = "append the marker"
    ACK = "publish the acked batch and positions"
    SETTLE = "move the frozen view into the image"
    THAW = "count the frozen view as dirty again"


_A, _P = Action, Phase

TRANSITIONS: dict[tuple[Phase, type], tuple[Phase, tuple[Action, ...]]] = {
    (_P.RESTING, Due): (_P.ENCODING, (_A.CAPTURE,)),
    (_P.ENCODING, Encoded): (_P.FLUSHING, ()),
    (_P.FLUSHING, Flushed): (_P.DECIDING, (_A.PROPOSE,)),
    (_P.SETTLING, Settled): (_P.RESTING, ()),
} | {(phase, Abandoned): (_P.RESTING, (_A.THAW,)) for phase in (_P.ENCODING, _P.FLUSHING, _P.DECIDING)}
"""(phase, event) -> (next phase, actions). MarkerRead is missing here because its outcome depends on the validity: see
`handle`."""

_READ_BACK = {
    True: (_P.SETTLING, (_A.ACK, _A.SETTLE)),
    False: (_P.RESTING, (_A.THAW,)),
}


@dataclass(slots=True)
class CheckpointRun:
    """The state machine of one unit's runs; `batch` is the batch of the run under way."""

    phase: Phase = Phase.RESTING
    batch: int = 0
    story: list[str] = field(default_factory=list)

    def handle(self, event: Event) -> tuple[Action, ...]:
        """Applies an event and returns the actions to carry out now."""
        transition = TRANSITIONS.get((self.phase, type(event)))
        if isinstance(event, MarkerRead) and self.phase is Phase.DECIDING:
            transition = _READ_BACK[event.valid]
        if isinstance(event, Flushed) and event.batch < self.batch:
            transition = None
        if transition is None:
            return ()
        if isinstance(event, Due):
            self.batch = event.batch
        before, (self.phase, actions) = self.phase, transition
        self.story.append(f"{before.value} --{type(event).__name__}--> {self.phase.value} (batch {self.batch})")
        del self.story[:-100]
        return actions
