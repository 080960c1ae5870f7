"""The state machine of one incident: units of a job that failed together are restored in the order of a plan.

Source: MECHANISMS R2, R3, R5 and R6 (Su and Zhou 2017), docs/decisions/0095. To change what happens, change one row of
TRANSITIONS. What is proposed counts once it is read back from `assignments`, and each record states the whole incident:
so the phase is a function of the last valid record and of where the units are, and any replica can continue from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import msgspec

from holdfast.schemas.incidents import Chosen, Incident
from holdfast.services.kernel.plurals import plural
from holdfast.services.recovery.core.job.recovery_plan import Plan, Query, plan

NO_QUERY = ""
"""Stands for the units that no query needs: they come last."""
LAST = 1e-9
"""Their priority."""
SPARK = "spark"
"""The kind of slots that units of Spark's take."""
AGAIN_US = 1_000_000
"""Another place for the same unit is looked for so long after the last plan: what nobody can take makes no noise."""


class Phase(Enum):
    """Phases of an incident."""

    CALM = "calm"
    DETECTED = "detected"
    PLANNED = "planned"
    RESTORING = "restoring"


class Sign(Enum):
    """Observations of a job's units and workers, in the order of precedence: the first one that has a row counts."""

    TOGETHER = "workers have failed together"
    FURTHER = "further units have failed"
    BACK = "all of its units run"
    HEARD = "every worker that lives was heard"
    OTHER_SLOTS = "other units fit"
    NO_WORKER_CAME = "nobody waits for more workers"


class Move(Enum):
    """Effects of the next record."""

    OPEN = "the incident begins"
    WIDEN = "they belong to it"
    PLAN = "a plan"
    PLAN_BEYOND = "a plan beyond the slots"
    CLOSE = "the incident is over"


@dataclass(frozen=True)
class Scene:
    """A job at one moment. Units by name.

    incident: the last valid record; None: there never was one. units: all of the job that have copies. stranded: those
    of which no copy can continue. running: those whose leader runs. workers: that have failed lately and took units.
    together: so many of them that it is a correlated failure. queries: what each needs. slots: free ones of the
    workers that are there; drivers: of Spark's drivers. hosted: units that need one of these. heard: whether all of
    these are known. age_us: of the record. patience_us: nobody waits longer for workers. back: units that are
    restored begin again at the newest global checkpoint. gradual: they may be restored one by one; else all at
    once. line: of the job, the next one. misplaced: those that have a slot on a worker that cannot take them.
    above: by unit, those that send what it takes in. joined: of these, those that need not go back any more. complete:
    the newest global checkpoint. returned: every worker that has failed is there again, so nobody waits for more.
    consumption: what units have used, where that differs, see recovery_plan.py.
    """

    job: str
    generation: str
    incident: Incident | None
    units: frozenset[str]
    stranded: frozenset[str]
    running: frozenset[str]
    queries: Mapping[str, Query]
    workers: tuple[str, ...] = ()
    together: bool = False
    slots: int = 0
    heard: bool = True
    age_us: int = 0
    patience_us: int = 30_000_000
    back: bool = False
    gradual: bool = True
    line: int = 1
    misplaced: frozenset[str] = frozenset()
    returned: bool = False
    drivers: int = 0
    hosted: frozenset[str] = frozenset()
    above: Mapping[str, frozenset[str]] = field(default_factory=dict)
    joined: frozenset[str] = frozenset()
    complete: int = -1
    consumption: Mapping[str, float] = field(default_factory=dict)

    @property
    def senders(self) -> frozenset[str]:
        """All that send what the stranded units take in, and have not failed."""
        found = frozenset[str]().union(*(self.above.get(unit, frozenset()) for unit in self.stranded))
        return found - self.stranded - self.joined

    @property
    def phase(self) -> Phase:
        return phase(self.incident, self.stranded)

    @property
    def open(self) -> Incident:
        assert self.incident is not None
        assert not self.incident.over, f"{self.incident.job_key}: no incident is open"
        return self.incident

    @property
    def wait_us(self) -> int:
        """Without another plan nobody waits longer for slots."""
        return AGAIN_US if self.returned else self.patience_us

    @property
    def blocking(self) -> bool:
        return self.back and not (self.gradual and self.together)

    @cached_property
    def plan(self) -> Plan:
        """The plan of the next restores, as of now."""
        return self._planned(self.slots, self.drivers)

    @cached_property
    def beyond(self) -> Plan:
        """The plan if slots were no limit."""
        most = len(self.stranded)
        return self._planned(max(self.slots, most), max(self.drivers, most))

    def _planned(self, slots: int, drivers: int) -> Plan:
        hosted = len(self.stranded & self.hosted)
        if self.open.blocking and (slots < len(self.stranded) - hosted or drivers < hosted):
            slots = drivers = 0
        needed = frozenset[str]().union(*(query.units for query in self.queries.values()))
        rest = {NO_QUERY: Query(self.stranded - needed, LAST)}
        kinds = dict.fromkeys(self.hosted, SPARK)
        return plan(
            {**self.queries, **rest},
            dict.fromkeys(sorted(self.stranded), 1),
            {"": slots, SPARK: drivers},
            kinds,
            self.open.consumption,
        )

    @property
    def now(self) -> Plan:
        return self.beyond if self.open.beyond else self.plan


def phase(incident: Incident | None, stranded: frozenset[str]) -> Phase:
    """stranded: units of the job of which no copy can continue."""
    if incident is None or incident.over:
        return Phase.CALM
    if not incident.planned:
        return Phase.DETECTED
    return Phase.PLANNED if stranded.issuperset(incident.granted) else Phase.RESTORING


SIGNS: Mapping[Sign, Callable[[Scene], bool]] = {
    Sign.TOGETHER: lambda s: (
        bool(s.stranded) and (s.together or s.back) if s.phase is Phase.CALM else s.open.blocking and not s.blocking
    ),
    Sign.FURTHER: lambda s: not s.stranded.issubset(s.open.units),
    Sign.BACK: lambda s: (
        not s.stranded
        and s.units.intersection(s.open.units) <= s.running
        and (not s.back or s.units.intersection(s.open.above) <= s.joined)
    ),
    Sign.HEARD: lambda s: s.heard,
    Sign.OTHER_SLOTS: lambda s: (
        s.heard
        and ((bool(s.misplaced) and s.age_us >= AGAIN_US) or _granted(s.now) != s.stranded.intersection(s.open.granted))
    ),
    Sign.NO_WORKER_CAME: lambda s: (
        not s.open.beyond and s.age_us >= s.wait_us and not s.stranded.issubset(s.open.granted)
    ),
}
"""Condition of each sign."""

_P, _S, _M = Phase, Sign, Move

TRANSITIONS: Mapping[tuple[Phase, Sign], tuple[Phase, Move]] = {
    (_P.CALM, _S.TOGETHER): (_P.DETECTED, _M.OPEN),
    (_P.DETECTED, _S.TOGETHER): (_P.DETECTED, _M.WIDEN),
    (_P.DETECTED, _S.FURTHER): (_P.DETECTED, _M.WIDEN),
    (_P.DETECTED, _S.BACK): (_P.CALM, _M.CLOSE),
    (_P.DETECTED, _S.HEARD): (_P.PLANNED, _M.PLAN),
    (_P.PLANNED, _S.TOGETHER): (_P.DETECTED, _M.WIDEN),
    (_P.PLANNED, _S.FURTHER): (_P.DETECTED, _M.WIDEN),
    (_P.PLANNED, _S.BACK): (_P.CALM, _M.CLOSE),
    (_P.PLANNED, _S.OTHER_SLOTS): (_P.PLANNED, _M.PLAN),
    (_P.PLANNED, _S.NO_WORKER_CAME): (_P.PLANNED, _M.PLAN_BEYOND),
    (_P.RESTORING, _S.TOGETHER): (_P.DETECTED, _M.WIDEN),
    (_P.RESTORING, _S.FURTHER): (_P.DETECTED, _M.WIDEN),
    (_P.RESTORING, _S.BACK): (_P.CALM, _M.CLOSE),
    (_P.RESTORING, _S.OTHER_SLOTS): (_P.PLANNED, _M.PLAN),
    (_P.RESTORING, _S.NO_WORKER_CAME): (_P.PLANNED, _M.PLAN_BEYOND),
}
"""(phase, sign) -> (next phase, what the record does). No row: nothing to do."""

ROWS: Mapping[Phase, tuple[Sign, ...]] = {
    each: tuple(sign for sign in Sign if (each, sign) in TRANSITIONS) for each in Phase
}


def _open(s: Scene) -> Incident:
    return Incident(
        s.job,
        s.generation,
        1,
        s.workers,
        units=tuple(sorted(s.stranded)),
        line=s.line if s.back else 0,
        blocking=s.blocking,
        above=tuple(sorted(s.senders)) if s.back else (),
        complete=s.complete,
        consumption=_consumed(s),
    )


def _widen(s: Scene) -> Incident:
    return msgspec.structs.replace(
        s.open,
        workers=_failed(s),
        units=tuple(sorted(s.stranded.union(s.open.units))),
        above=tuple(sorted(s.senders.union(s.open.above))) if s.open.line else (),
        planned=False,
        chosen=(),
        waiting={},
        beyond=False,
        blocking=s.open.blocking and s.blocking,
        consumption={**_consumed(s), **s.open.consumption},
    )


def _consumed(s: Scene) -> dict[str, float]:
    """CPU usage that stays in the record: replicas with different measurements would replace each other's plans."""
    return {unit: times for unit, times in sorted(s.consumption.items()) if unit in s.stranded}


def _plan(s: Scene) -> Incident:
    return _with_plan(s, s.now)


def _plan_beyond(s: Scene) -> Incident:
    return msgspec.structs.replace(_with_plan(s, s.beyond), beyond=True)


def _with_plan(s: Scene, made: Plan) -> Incident:
    return msgspec.structs.replace(
        s.open,
        workers=_failed(s),
        planned=True,
        chosen=tuple(Chosen(one.query, one.units, one.density) for one in made.chosen),
        waiting=dict(made.waiting),
        slots=max(s.slots, 0) + max(s.drivers, 0),
    )


def _failed(s: Scene) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*s.open.workers, *s.workers)))


def _close(s: Scene) -> Incident:
    return msgspec.structs.replace(s.open, planned=True, chosen=(), waiting={}, over=True)


MOVES: Mapping[Move, Callable[[Scene], Incident]] = {
    _M.OPEN: _open,
    _M.WIDEN: _widen,
    _M.PLAN: _plan,
    _M.PLAN_BEYOND: _plan_beyond,
    _M.CLOSE: _close,
}
"""The next record, but for its number."""


def next_record(scene: Scene) -> tuple[Incident, str] | None:
    """The record that is due, and why, as a line of a story; None: there is none."""
    before = scene.phase
    sign = next((sign for sign in ROWS[before] if SIGNS[sign](scene)), None)
    if sign is None:
        return None
    after, move = TRANSITIONS[before, sign]
    last = 0 if scene.incident is None else scene.incident.number
    record = msgspec.structs.replace(MOVES[move](scene), number=last + 1)
    check_invariants(record)
    assert phase(record, scene.stranded) is after, f"{record.job_key}: {sign.value}: not {after.value}"
    return record, f"incident {record.number}: {before.value} -> {after.value}: {sign.value}: {move.value}"


def check_invariants(record: Incident) -> None:
    """Raises AssertionError on a record that no row of the table makes."""
    where = f"{record.job_key} incident {record.number}"
    granted = record.granted
    assert len(set(granted)) == len(granted), f"{where}: a unit has two slots"
    assert set(granted) <= set(record.units), f"{where}: a unit that does not belong to it has a slot"
    assert record.planned or not granted, f"{where}: units have slots before there is a plan"
    assert not (record.over and granted), f"{where}: it is over, and units wait for their restore"
    steps = [step.query for step in record.chosen]
    assert not set(steps) & record.waiting.keys(), f"{where}: a query that comes back waits"


def story_line(after: Incident) -> str:
    """`incident <number>: <what it says>`."""
    job = f"incident {after.job}#{after.number}"
    if after.over:
        return f"{job}: over"
    if not after.planned:
        failed = ", ".join(after.workers)
        how = "all at once" if after.blocking else "one by one"
        with_them = f"; {len(after.above)} that send to them go back, too" if after.above else ""
        return f"{job}: {failed} failed; {plural(len(after.units), 'unit')} to restore, {how}{with_them}"
    order = "; ".join(f"{step.query or 'no query'} {step.density:.4g}: {' '.join(step.units)}" for step in after.chosen)
    waits = ", ".join(f"{query or 'no query'} {density:.4g}" for query, density in after.waiting.items())
    room = "no limit of slots" if after.beyond else plural(after.slots, "slot")
    return f"{job}: {room}; restored: {order or 'nothing'}; waiting: {waits or 'nobody'}"


def kind_of(record: Incident) -> str:
    """The kind of event by which people hear of it."""
    return "incident-over" if record.over else "incident-planned" if record.planned else "incident"


def _granted(made: Plan) -> frozenset[str]:
    return frozenset(unit for one in made.chosen for unit in one.units)
