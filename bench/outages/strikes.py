"""Planned outages and those that were made, and their report. Pure.

Source: MECHANISMS P12 to P14, docs/decisions/0168 to 0170.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from bench.rig.figures import percentile
from bench.rig.resumed import remaining

UNIT, FORK, BROKER = "unit", "fork", "broker"
KINDS = {
    UNIT: "a worker is struck and comes back",
    FORK: "meanwhile the worker of a unit that works tentatively is killed, too",
    BROKER: "meanwhile Kafka is killed",
}
KILL, FREEZE = "kill", "freeze"
FAULTS = {KILL: "SIGKILL; its parent starts it again", FREEZE: "SIGSTOP for 3 s, then SIGCONT"}
FORKS, BROKERS = 0.25, 0.1
"""Shares of the outages."""


class Strike(msgspec.Struct, frozen=True):
    """An outage to be made."""

    kind: str
    fault: str


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """An outage that was made. Times are from the strike; -1: it did not come.

    struck: units that the worker led. fidelity: the lowest that a query had meanwhile.
    noted_ms: until the outage was on the log. first_ms: until a read_committed reader had a tentative row.
    over_ms: until no unit was out any more. closed_ms: until no tentative row was open, and all units were protected.
    tentative, closing: records of its time.
    rows, lost, duplicated, wrong: of the whole round, in its last outcome. open: keys that stayed tentative. untrue:
    keys for which a reader with `Newest` ends with another row than the last final one.
    """

    kind: str
    fault: str
    struck: tuple[str, ...]
    fidelity: float
    noted_ms: float
    first_ms: float
    over_ms: float
    closed_ms: float
    tentative: int
    closing: int
    rows: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: int = 0
    open: int = 0
    untrue: int = 0

    @property
    def recovered_share(self) -> float | None:
        """First tentative row as a share of the time until the units had recovered; None: there was no such row."""
        return self.first_ms / self.over_ms if self.first_ms >= 0 and self.over_ms > 0 else None


def strikes(count: int) -> list[Strike]:
    """A quarter strikes the worker of a fork, and a tenth the broker; both faults by turns."""
    forks, brokers = round(count * FORKS), round(count * BROKERS)
    kinds = [FORK] * forks + [BROKER] * brokers + [UNIT] * (count - forks - brokers)
    faults = list(FAULTS)
    return [Strike(kind, faults[number % len(faults)]) for number, kind in enumerate(kinds)]


def left_of(wanted: Sequence[Strike], made: Sequence[Outcome]) -> list[Strike]:
    """Outages that are still to be made."""
    return remaining(wanted, [Strike(one.kind, one.fault) for one in made])


def rounds(left: Sequence[Strike], most: int, chance: random.Random) -> list[list[Strike]]:
    """Strikes for one cluster each, in random order."""
    mixed = list(left)
    chance.shuffle(mixed)
    return [mixed[first : first + most] for first in range(0, len(mixed), most)]


# -- the report -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the report, with medians in ms.

    with_rows: number of outages with tentative rows.
    """

    kind: str
    fault: str
    times: int
    with_rows: int
    noted_ms: float
    first_ms: float
    first_p95_ms: float
    over_ms: float
    share: float
    tentative: int


def report(made: Sequence[Outcome]) -> list[Row]:
    """Rows by kind and fault."""
    cases = [(kind, fault) for kind in KINDS for fault in FAULTS]
    return [_row(case, some) for case in cases if (some := [one for one in made if (one.kind, one.fault) == case])]


def _row(case: tuple[str, str], some: Sequence[Outcome]) -> Row:
    firsts = [one.first_ms for one in some if one.first_ms >= 0]
    shares = [one.recovered_share for one in some if one.recovered_share is not None]
    return Row(
        *case,
        times=len(some),
        with_rows=len(firsts),
        noted_ms=_share([one.noted_ms for one in some if one.noted_ms >= 0], 0.5),
        first_ms=_share(firsts, 0.5),
        first_p95_ms=_share(firsts, 0.95),
        over_ms=_share([one.over_ms for one in some if one.over_ms >= 0], 0.5),
        share=_share(shares, 0.5),
        tentative=sum(one.tentative for one in some),
    )


def _share(found: Sequence[float], share: float) -> float:
    return round(percentile(list(found), share), 3) if found else -1.0


COUNTED = ("rows", "lost", "duplicated", "wrong", "open", "untrue", "tentative", "closing")


def counts(made: Sequence[Outcome]) -> dict[str, int]:
    return {name: sum(getattr(one, name) for one in made) for name in COUNTED}


def exact(made: Sequence[Outcome]) -> bool:
    """True if no row is lost, duplicated or wrong, and none stays tentative."""
    found = counts(made)
    return not any(found[name] for name in ("lost", "duplicated", "wrong", "open", "untrue"))
