"""The state machine of one incident: units of a job that failed together are restored in the order of a plan.

Source: MECHANISMS R2, R3, R5 and R6 (Su and Zhou 2017), docs/decisions/0095. To change a reaction, change one row of
TRANSITIONS. A proposed record counts once it is read back from `assignments`, and each record states the whole
incident: the phase is a function of the last valid record and of the stranded units, and any replica can continue from
there.
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
"""Name of the query of all units that no query needs; it comes last."""
LAST = 1e-9
"""Priority of NO_QUERY."""
SPARK = "spark"
"""The kind of slots that units of Spark take."""
AGAIN_US = 1_000_000
"""Time from the last plan to the next search for a place of a unit, so that a unit without one writes few records."""


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
    """A job at one moment, with units by name.

    incident: the last valid record; None: there never was one.
    units: all units of the job that have copies.
    stranded: units of which no copy can continue.
    running: units whose leader runs.
    queries: the units that each query needs, and its priority.
    workers: workers that have failed lately and held copies.
    together: true if their number makes the failure correlated.
    slots, drivers: free slots of present workers, and of Spark's drivers.
    heard: true if all of these are known.
    age_us: time since the last record was read.
    patience_us: longest wait for more workers.
    back: true if restored units begin again at the newest global checkpoint.
    gradual: true if units may be restored one by one; otherwise all at once.
    line: the next line of the job.
    misplaced: units with a slot on a worker that cannot take them.
    returned: true if every failed worker is there again, so that no further worker is waited for.
    hosted: units that need a slot of a Spark driver.
    above: by unit, the units that send its inputs.
    joined: of these, the units that need not go back any more.
    complete: the newest global checkpoint.
    consumption: CPU usage of units, if it differs; see recovery_plan.py.
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
        """Units that send inputs of the stranded units, have not failed and have to go back."""
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
        """Time after which no unit waits for slots any longer, if no other plan is made."""
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
    """Returns the phase of the incident.

    stranded: units of the job of which no copy can continue.
    """
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
"""(next phase, effect of the record) by (phase, sign). No row: nothing is due."""

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
"""Function of each move that returns the next record, without its number."""


def next_record(scene: Scene) -> tuple[Incident, str] | None:
    """Returns the record that is due, and its line of the story; None if no record is due."""
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
    """Returns `incident <job>#<number>: <content>`."""
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
    """Returns the kind of event that reports the record."""
    return "incident-over" if record.over else "incident-planned" if record.planned else "incident"


def _granted(made: Plan) -> frozenset[str]:
    return frozenset(unit for one in made.chosen for unit in one.units)
