"""Decides when a copy works on tentative batches beside its stable batches. The tentative batches form a line.

| state | meaning | next | |---|---|---| | OFF | no upstream unit is out, or the copy does not lead | LISTENS when an
upstream unit is out and the copy leads | | LISTENS | the line is at the stable batch, and its frames are kept | FORKED
when the stable batches have waited a while | | FORKED | the line works on a fork of the state, ahead of the stable
batches | LISTENS when these have reached the line |

Stable batches never wait for the line: it has its turn only while no stable batch is ready. After an error of its code
or of its memory, the line is off until this outage ends. Source: MECHANISMS P12 and P13, decision 0169.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

PATIENCE_MS = 100.0
"""Time after the last stable batch of a copy for which its line waits before it leaves units out. Most frames arrive
within it. It counts from that batch and not from the record of the outage, so detecting the failure is part of it."""


class State(Enum):
    OFF = "off"
    LISTENS = "listens"
    FORKED = "forked"


class Do(Enum):
    """The next action of the copy."""

    NOTHING = "nothing"
    LISTEN = "keep frames for the line"
    FORK = "fork the state, and do the line's next batch"
    PROCESS = "do the line's next batch"
    JOIN = "drop the fork: the stable line is as far"
    END = "drop the fork, and keep no frames any more"


@dataclass(frozen=True, slots=True)
class LineView:
    """A copy's view of its line.

    Attributes:
        leads: True if the copy may fork.
        out: outages of upstream units; empty if no unit is out.
        stable: last stable batch done.
        stands: True if the next stable batch is not here.
        ahead: True if a batch for the line is here.
        void: True if the fork no longer matches the state.
    """

    leads: bool
    out: str
    stable: int
    stands: bool
    ahead: bool
    void: bool = False


@dataclass(slots=True)
class LineState:
    """The line of one copy.

    Attributes:
        state: its state.
        done: last batch of the line.
        stable: the last stable batch that was seen.
        since_ms: time since which it is the last one.
        banned: outages during which the line stays off.
    """

    state: State = State.OFF
    done: int = 0
    stable: int = -1
    since_ms: float = 0.0
    banned: str = ""

    def see(self, stable: int, now_ms: float) -> None:
        """Records the copy's last stable batch, in each turn, also while nothing is out."""
        if stable != self.stable:
            self.stable = stable
            self.since_ms = now_ms

    def next_action(self, view: LineView, now_ms: float) -> Do:
        """Chooses the next action and enters its state. The caller reports a finished batch with `processed`."""
        self.see(view.stable, now_ms)
        wanted = view.leads and bool(view.out) and view.out != self.banned
        if self.state is State.OFF:
            if not wanted:
                return Do.NOTHING
            self.state = State.LISTENS
            self.done = view.stable
            return Do.LISTEN
        if not view.leads or (not wanted and self.state is State.LISTENS):
            return self._end()
        if self.state is State.LISTENS:
            self.done = view.stable
            patient = now_ms - self.since_ms < PATIENCE_MS
            if patient or not view.stands or not view.ahead:
                return Do.NOTHING
            self.state = State.FORKED
            return Do.FORK
        if view.void or view.out == self.banned != "":
            return self._end()
        if view.stable >= self.done:
            self.state = State.LISTENS
            self.done = view.stable
            return Do.JOIN
        return Do.PROCESS if view.stands and view.ahead and wanted else Do.NOTHING

    def processed(self, batch: int) -> None:
        """Notes that the line has done a batch."""
        self.done = batch

    def ban(self, out: str) -> None:
        """Keeps the line off until another outage begins."""
        self.banned = out

    def _end(self) -> Do:
        self.state = State.OFF
        return Do.END

    def due_ms(self, view: LineView, now_ms: float) -> float:
        """The time at which a fork is due without further events; infinite if it is not."""
        if self.state is State.LISTENS and view.stands and view.ahead:
            return (now_ms if view.stable != self.stable else self.since_ms) + PATIENCE_MS
        return float("inf")

    def check_invariants(self) -> None:
        assert self.done >= 0
        assert self.stable >= -1
