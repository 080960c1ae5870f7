"""The table of a line: when a copy works at tentative batches beside its stable ones.

| state | what holds | next |
|---|---|---|
| OFF | no unit above is out, or the copy does not lead | LISTENS once both are otherwise |
| LISTENS | frames are kept for the line, which is where the stable one is | FORKED once that has stood for a while |
| FORKED | the line works on a fork of the state, ahead of the stable one | LISTENS once the stable one is as far |

Stable batches never wait for the line: it has its turn only while none of them is ready. The line is off for good, for
as long as this outage lasts, once its code or its memory has failed. Source: MECHANISMS P12 and P13, decision 0169.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

PATIENCE_MS = 100.0
"""So long the stable line stands before the line leaves units out: most frames come by themselves."""


class State(Enum):
    OFF = "off"
    LISTENS = "listens"
    FORKED = "forked"


class Do(Enum):
    """The next thing that the copy does."""

    NOTHING = "nothing"
    LISTEN = "keep frames for the line"
    FORK = "fork the state, and do the line's next batch"
    PROCESS = "do the line's next batch"
    JOIN = "drop the fork: the stable line is as far"
    END = "drop the fork, and keep no frames any more"


@dataclass(frozen=True, slots=True)
class LineView:
    """The knowledge of a copy.

    leads: it may fork.
    out: the outages of units above; empty: none is out.
    stable: the last batch done.
    stands: the next one is not here.
    ahead: a batch is here for the line.
    void: the fork is no view of the state any more.
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

    done: the last batch of the line.
    stood_ms: since when the stable batches stand; None: they do not.
    """

    state: State = State.OFF
    done: int = 0
    stood_ms: float | None = None
    banned: str = ""

    def look(self, sight: LineView, now_ms: float) -> Do:
        """Chooses what to do now; the state is then as if it were done, but for `processed`."""
        wanted = sight.leads and bool(sight.out) and sight.out != self.banned
        self.stood_ms = None if not sight.stands else now_ms if self.stood_ms is None else self.stood_ms
        if self.state is State.OFF:
            if not wanted:
                return Do.NOTHING
            self.state, self.done = State.LISTENS, sight.stable
            return Do.LISTEN
        if not sight.leads or (not wanted and self.state is State.LISTENS):
            return self._end()
        if self.state is State.LISTENS:
            self.done = sight.stable
            patient = self.stood_ms is None or now_ms - self.stood_ms < PATIENCE_MS
            if patient or not sight.ahead:
                return Do.NOTHING
            self.state = State.FORKED
            return Do.FORK
        if sight.void or sight.out == self.banned != "":
            return self._end()
        if sight.stable >= self.done:
            self.state, self.done = State.LISTENS, sight.stable
            return Do.JOIN
        return Do.PROCESS if sight.stands and sight.ahead and wanted else Do.NOTHING

    def processed(self, batch: int) -> None:
        """The line has done a batch."""
        self.done = batch

    def ban(self, out: str) -> None:
        """The line ends until another outage begins."""
        self.banned = out

    def _end(self) -> Do:
        self.state, self.stood_ms = State.OFF, None
        return Do.END

    def due_ms(self, sight: LineView, now_ms: float) -> float:
        """The time at which a fork is due without news; inf: never."""
        if self.state is State.LISTENS and self.stood_ms is not None and sight.stands and sight.ahead:
            return self.stood_ms + PATIENCE_MS
        return float("inf")

    def check_invariants(self) -> None:
        assert self.done >= 0
        assert self.state is not State.OFF or self.stood_ms is None or self.stood_ms >= 0
