"""Strikes on workers: their number, their outcomes, and their goals. Pure.

Source: MECHANISMS section 1 (what the schemes promise), PROTOCOL 5 and 8.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import msgspec

from bench.rig.figures import Target, at_most, percentile
from bench.rig.pairs import Ratio, ratio
from bench.rig.resumed import remaining
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES, Rung

KILL, KILL_UNNOTICED, STALL, FLAP = "kill", "kill-unnoticed", "stall", "flap"
FAULTS = {
    KILL: "SIGKILL; the parent gives notice of the exit",
    KILL_UNNOTICED: "SIGKILL; only the missing heartbeats show it",
    STALL: "SIGSTOP for 5 s, then SIGCONT",
    FLAP: "SIGSTOP and SIGCONT by turns, 300 ms each, for 5 s",
}
FROZEN = (STALL, FLAP)
"""Faults that the process survives."""
BETWEEN, EDGE = "between", "source or sink"
OPERATORS = {"count": BETWEEN, "source": EDGE, "largest": BETWEEN, "sink": EDGE}
"""Operators whose worker is struck, in turn (by name or kind), with the unit's place in the chain."""

STALLING = tuple(name for name, scheme in SCHEMES.items() if scheme.misses == 1)
"""Schemes that answer a stall before it is over."""

ALIKE = tuple(name for name, scheme in SCHEMES.items() if scheme.secondary is Rung.ACTIVE)
"""Schemes under which both copies of a unit between others do the same."""


class Strike(msgspec.Struct, frozen=True):
    """A strike to be made.

    viewed: true to make it while a viewer has the job's page open.
    """

    scheme: str
    fault: str
    viewed: bool = False


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """A strike that was made.

    viewed: somebody looked at the job in a console.
    charged: operators, as in OPERATORS, whose unit the struck worker led.
    takeover_ms: from the signal to the first result, in a read_committed reader's hands, of a record sent after it.
    silence_ms: the longest time without any result after it. before_ms: the same just before it.
    back_ms: until all is protected again.
    phases_ms: from the events of the struck unit.
    lost, duplicated, wrong: rows of the whole round, in its last outcome.
    """

    scheme: str
    fault: str
    operator: str
    takeover_ms: float
    silence_ms: float
    before_ms: float
    back_ms: float
    charged: tuple[str, ...] = ()
    phases_ms: dict[str, float] = {}
    rows: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: int = 0
    viewed: bool = False

    @property
    def place(self) -> str:
        """Place of all units that the worker led: with a source or a sink among them, results wait for that one."""
        places = {OPERATORS[one] for one in self.charged or (self.operator,)}
        return EDGE if EDGE in places else BETWEEN

    @property
    def measured_ms(self) -> float:
        return self.silence_ms if self.fault in FROZEN else self.takeover_ms


@dataclass(frozen=True, slots=True)
class Plan:
    """Number of strikes of each kind.

    kills_of: schemes with another number of kills with notice.
    """

    kills: int = 20
    stalls: int = 10
    kills_of: tuple[tuple[str, int], ...] = (("hybrid", 100),)

    @classmethod
    def times(cls, each: int) -> Plan:
        """A plan with the same number of strikes of each kind."""
        return cls(each, each, ())


FULL, QUICK = Plan(), Plan(4, 2, ())


def strikes(plan: Plan, schemes: Sequence[str], faults: Sequence[str], *, viewer: bool = False) -> list[Strike]:
    """Strikes, those with notices first, since they share clusters.

    viewer: true to make each strike also with a viewer.
    """
    kills = dict(plan.kills_of)
    wanted = []
    for scheme in schemes:
        count = {KILL: kills.get(scheme, plan.kills), KILL_UNNOTICED: plan.kills, **dict.fromkeys(FROZEN, plan.stalls)}
        for fault in faults:
            if fault not in FROZEN or scheme in STALLING:
                wanted += [Strike(scheme, fault, viewed) for viewed in (False, True)[: 1 + viewer]] * count[fault]
    return wanted


def victim(scheme: str, operator: str, copies: Sequence[str], charges: Mapping[str, Sequence[str]]) -> str:
    """The worker to be struck: the leader of the operator's unit.

    Where both copies do the same, rather one of the two that leads no source and no sink, since units gather
    on workers as these fall: else hardly anything is measured but what the other row is for.

    Args:
        copies: workers with a copy of the unit, the leader first.
        charges: by worker, the operators whose unit it leads.
    """
    if scheme in ALIKE and OPERATORS[operator] == BETWEEN:
        between = (one for one in copies if all(OPERATORS[held] == BETWEEN for held in charges[one]))
        return next(between, copies[0])
    return copies[0]


def left_of(wanted: Sequence[Strike], made: Sequence[Outcome]) -> list[Strike]:
    """Strikes that are still to be made."""
    return remaining(wanted, [Strike(one.scheme, one.fault, one.viewed) for one in made])


def rounds(left: Sequence[Strike], most: int, chance: random.Random) -> list[list[Strike]]:
    """Rounds of strikes for one cluster each: of one scheme, with notices or without, in random order; with a viewer
    and without in turns, each turn with a strike on every operator.
    """
    found = []
    kinds = dict.fromkeys((strike.scheme, strike.fault == KILL_UNNOTICED) for strike in left)
    for kind in kinds:
        some = [strike for strike in left if (strike.scheme, strike.fault == KILL_UNNOTICED) == kind]
        chance.shuffle(some)
        some = _by_turns(some, chance)
        found += [some[first : first + most] for first in range(0, len(some), most)]
    return found


def _by_turns(some: Sequence[Strike], chance: random.Random) -> list[Strike]:
    sides = [[one for one in some if one.viewed is viewed] for viewed in (False, True)]
    chance.shuffle(sides)
    each = len(OPERATORS)
    turns = ([side[at : at + each] for at in range(0, len(side), each)] for side in sides)
    return [one for turn in zip_longest(*turns, fillvalue=[]) for part in turn for one in part]


def compared(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], Ratio]:
    """The measured time with a viewer over that without, by scheme and fault: pairs of the same operator by turns."""
    found = {}
    for scheme, fault in dict.fromkeys((one.scheme, one.fault) for one in outcomes):
        pairs = []
        for operator in OPERATORS:
            some = [one for one in outcomes if (one.scheme, one.fault, one.operator) == (scheme, fault, operator)]
            sides = ([one.measured_ms for one in some if one.viewed is viewed] for viewed in (True, False))
            pairs += list(zip(*sides, strict=False))
        if pairs:
            found[scheme, fault] = ratio([one for one, _ in pairs], [other for _, other in pairs])
    return found


# -- what it is to reach ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Goal:
    """Goal of one row.

    bounds: percentiles of the measured time, in milliseconds.
    above_before: true to count only the time beyond the silence before it.
    """

    bounds: tuple[tuple[str, float], ...]
    above_before: bool = False


def _goal(**bounds: float) -> Goal:
    return Goal(tuple(bounds.items()))


_ONE_MISS, _NOTICED, _STALLED = _goal(p50=200, max=500), _goal(p50=60), _goal(max=500)
_NEVER_SILENT = Goal((("max", 60),), above_before=True)

GOALS: dict[tuple[str, str, str], Goal] = {
    **{("active-replication", fault, BETWEEN): _NEVER_SILENT for fault in FAULTS},
    ("active-replication", KILL_UNNOTICED, EDGE): _ONE_MISS,
    ("active-replication", KILL, EDGE): _NOTICED,
    **{("active-replication", fault, EDGE): _STALLED for fault in FROZEN},
    ("active-standby", KILL_UNNOTICED, ""): _ONE_MISS,
    ("active-standby", KILL, ""): _NOTICED,
    **{("active-standby", fault, ""): _STALLED for fault in FROZEN},
    ("hybrid", KILL_UNNOTICED, ""): _goal(p50=200, p99=500),
    ("hybrid", KILL, ""): _goal(p50=50, p99=150),
    **{("hybrid", fault, ""): _STALLED for fault in FROZEN},
    **{(scheme, KILL_UNNOTICED, ""): _goal(p50=500) for scheme in ("passive-hot", "passive-cold")},
    **{(scheme, KILL, ""): _goal(p50=150) for scheme in ("passive-hot", "passive-cold")},
    ("deployed", KILL_UNNOTICED, ""): _goal(p50=1000),
    ("deployed", KILL, ""): _goal(p50=700),
    ("passive", KILL_UNNOTICED, ""): _goal(p50=1500),
    ("passive", KILL, ""): _goal(p50=1300),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the report.

    met: true if the target was met; None: there is no target.
    """

    scheme: str
    fault: str
    place: str
    times: int
    measured: dict[str, float]
    bounds: dict[str, Target]
    exact: bool

    @property
    def met(self) -> bool | None:
        return all(bound.met(self.measured[name]) for name, bound in self.bounds.items()) if self.bounds else None


def report(outcomes: Sequence[Outcome]) -> list[Row]:
    """Rows by scheme and fault, and by place where the goals distinguish places."""
    rows = []
    for scheme in SCHEMES:
        for fault in FAULTS:
            for place in ("", BETWEEN, EDGE):
                goal = GOALS.get((scheme, fault, place))
                split = any((scheme, fault, each) in GOALS for each in (BETWEEN, EDGE))
                some = [o for o in outcomes if (o.scheme, o.fault) == (scheme, fault) and place in ("", o.place)]
                if some and bool(place) == split:
                    rows.append(_row(scheme, fault, place, some, goal))
    return rows


def _row(scheme: str, fault: str, place: str, some: Sequence[Outcome], goal: Goal | None) -> Row:
    found = [one.measured_ms for one in some]
    bounds: dict[str, Target] = {}
    if goal is not None and goal.above_before:
        found = [max(one.silence_ms - one.before_ms, 0.0) for one in some]
    if goal is not None:
        bounds = {name: at_most(bound) for name, bound in goal.bounds}
    measured = {f"p{share}": percentile(found, share / 100) for share in (50, 95, 99)} | {"max": max(found)}
    exact = not any(one.lost or one.duplicated or one.wrong for one in some)
    return Row(scheme, fault, place, len(some), {k: round(v, 1) for k, v in measured.items()}, bounds, exact)
