"""Expected duration of a takeover of one unit under each scheme, by phase. Pure.

Source: MECHANISMS A2 and A3 (Martin et al. 2015, tables 1 and 2). Times are milliseconds; unknown is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.facts.verdict import MARGIN, Phases

SLACK_MS = 40.0
"""Time outside all phases: recovery's turn, the record's way to the worker, the worker's turn."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Measurements of a unit; None: not measured yet.

    checkpoint_bytes: bytes that a restore reads.
    read_per_ms: the lowest measured rate of a restore, in bytes per millisecond.
    seek_ms: time of a restore that does not depend on its size.
    events: records taken since the newest valid marker.
    lag_events: records by which a processing copy is behind the leader.
    rate_per_ms: records that arrive per millisecond.
    throughput_per_ms: records processed in a millisecond of processing.
    deploy_ms: time to load and warm the operators.
    send_ms, receive_ms: time until frames are acknowledged, and until inputs answer.
    open_ms: time until rows may be delivered; 0 for a unit that delivers nothing.
    alone: true if some work is the leader's alone, so that no output appears before another copy leads.
    """

    checkpoint_bytes: float | None = None
    read_per_ms: float | None = None
    seek_ms: float | None = 0.0
    events: float | None = None
    lag_events: float | None = None
    rate_per_ms: float = 0.0
    throughput_per_ms: float | None = None
    deploy_ms: float | None = None
    send_ms: float | None = None
    receive_ms: float | None = None
    open_ms: float | None = 0.0
    alone: bool = True


class Replay(Enum):
    """Records that a copy processes before it has caught up with its predecessor."""

    NOTHING = "nothing"
    LAG = "what it is behind"
    EVENTS = "what came since the newest marker, and comes meanwhile"


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of a takeover that the flags of a secondary have left to do."""

    replay: Replay
    send: bool = False
    receive: bool = False
    read: bool = False
    deploy: bool = False


STEPS: Mapping[Rung, Steps] = {
    Rung.ACTIVE: Steps(Replay.NOTHING),
    Rung.STANDBY: Steps(Replay.LAG),
    Rung.HOT: Steps(Replay.EVENTS, send=True),
    Rung.COLD: Steps(Replay.EVENTS, send=True, receive=True),
    Rung.EMPTY: Steps(Replay.EVENTS, send=True, receive=True, read=True),
    Rung.ABSENT: Steps(Replay.EVENTS, send=True, receive=True, read=True, deploy=True),
}
"""Steps left by the rung of the secondary while all is well (MECHANISMS A2)."""


def takeover(
    rung: Rung, facts: Facts, *, exact: bool = True, detection_ms: float = 0.0, slack_ms: float = 0.0,
    margin: float = MARGIN,
) -> Phases:  # fmt: skip
    """Returns the phases of a takeover if the leader's worker fails now.

    Args:
        rung: of the secondary.
        exact: true if the records that have arrived are replayed; otherwise the copy continues with new ones (gap
            recovery).
        detection_ms: time from the failure to the decision.
        slack_ms, margin: see Phases.
    """
    steps = STEPS[rung]
    if steps.replay is Replay.NOTHING and not facts.alone:
        return Phases(margin=margin)  # the other copy sends all the time
    deploy = _known(facts.deploy_ms) if steps.deploy else 0.0
    read = read_ms(facts) if steps.read else 0.0
    wire = max(_known(facts.send_ms) if steps.send else 0.0, _known(facts.receive_ms) if steps.receive else 0.0)
    away_ms = detection_ms + slack_ms + deploy + read + wire
    replay = replay_ms(steps.replay, facts, away_ms) if exact else 0.0
    return Phases(
        detection_ms, deploy, read, wire, replay=replay, opening=_known(facts.open_ms), slack=slack_ms, margin=margin
    )


def read_ms(facts: Facts) -> float:
    """Returns the time to read the checkpoint: its size over the lowest measured rate, and the part without regard
    to size.
    """
    size = _known(facts.checkpoint_bytes)
    if not size:
        return _known(facts.seek_ms)
    return _known(facts.seek_ms) + (size / facts.read_per_ms if facts.read_per_ms else math.inf)


def replay_ms(replay: Replay, facts: Facts, away_ms: float) -> float:
    """Returns the time to process the records since the newest marker and those of the outage, while further ones
    arrive.

    away_ms: time from the failure until the copy begins to process.
    """
    if replay is Replay.NOTHING:
        return 0.0
    if replay is Replay.LAG:
        lag = facts.events if facts.lag_events is None else facts.lag_events
        return _processing(_known(lag), 0.0, facts.throughput_per_ms)
    came = facts.rate_per_ms * away_ms if facts.rate_per_ms else 0.0
    return _processing(_known(facts.events) + came, facts.rate_per_ms, facts.throughput_per_ms)


def _processing(events: float, rate_per_ms: float, throughput_per_ms: float | None) -> float:
    if not events:
        return 0.0
    spare = (throughput_per_ms or 0.0) - rate_per_ms
    return events / spare if spare > 0 else math.inf


def _known(value: float | None) -> float:
    return math.inf if value is None else value
