"""State and positions that a job takes over from another job: which are kept by name, which are not, and why.

Source: JOBS "holdfast savepoint". An operator keeps its state if its settings, the columns of its inputs and the key
that routes rows to its tasks are unchanged. Operators before it may change. Its number of tasks may change if its state
can be split and merged by key. A renamed operator keeps its state only if the user gives both names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from holdfast.schemas.plans import Edge, OperatorPlan, Plan, Problem
from holdfast.schemas.savepoints import Start
from holdfast.services.decisions.policies import ALIGNED, planned
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators.catalogue import KINDS
from holdfast.services.kernel.operators.kind import OperatorKind
from holdfast.services.kernel.plans.handed_over import split_by
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.planning.loader import interpret


class Fate(StrEnum):
    """Outcomes for the state of an operator, or for the positions of a source."""

    KEPT = "kept"
    NEW = "new"
    DROPPED = "dropped"
    REFUSED = "cannot be kept"


@dataclass(frozen=True, slots=True)
class Carried:
    """The outcome for one operator or source.

    Attributes:
        name: the operator or source.
        fate: the outcome.
        why: the reason, as text for a person.
    """

    name: str
    fate: Fate
    why: str


NOWHERE = Start("", "")


def carried(old: Plan, new: Plan, start: Start = NOWHERE) -> list[Carried]:
    """The outcomes for all sources and operators of both jobs, those of the new job first, in topological order. Sinks
    are left out because a sink has no state."""
    pair = _Pair(old, new, start)
    gone = (name for name in pair.before if name not in pair.names.values())
    return [*map(pair.of, pair.after), *(pair.without(pair.before[name]) for name in gone)]


def rescaled(old: Plan, new: Plan, start: Start) -> tuple[str, ...]:
    """Names of the operators that keep their state and get another number of tasks, so that the state is split and
    merged."""
    pair = _Pair(old, new, start)
    kept = (name for name in pair.after if pair.of(name).fate is Fate.KEPT and _stateful(pair.after[name]))
    return tuple(name for name in kept if pair.before[pair.names[name]].parallelism != pair.after[name].parallelism)


def former_names(old: Plan, new: Plan, start: Start) -> Mapping[str, str]:
    """Names in the former job of the sources and operators that the new job takes over, by name in the new job."""
    return _Pair(old, new, start).names


def problems(old: Plan, new: Plan, start: Start) -> Iterator[Problem]:
    """Reasons why the new job cannot begin with the savepoint of the former one."""
    every = {one.name for plan in (old, new) for one in plan.operators}
    for name in (name for name in start.drop_state if name not in every):
        yield Problem("drop_state", f"there is no operator '{name}'", suggest(name, sorted(every)))
    yield from _misnamed(old, new, start)
    sources = [one.operator for one in new.sources]
    for name in (name for name in start.reread if name not in sources):
        yield Problem("reread", f"there is no source '{name}'", suggest(name, sources))
    for one in carried(old, new, start):
        if one.fate is Fate.REFUSED:
            path = f"{'sources' if one.name in new.spec['sources'] else 'operators'}.{one.name}"
            yield Problem(path, f"cannot be kept: {one.why}", f"`--drop-state {one.name}` leaves it behind")
    if new.spark:
        yield Problem("operators", "a job with an operator on Spark cannot begin with a savepoint yet")
    if planned(new).policy == ALIGNED:
        hint = "begin under sweep; `holdfast checkpoint` changes the policy while the job runs"
        yield Problem(
            "fault_tolerance.checkpoint.policy", "a job cannot begin with a savepoint under aligned yet", hint
        )


class _Pair:
    """A job and the job that takes over from it.

    Attributes:
        before, after: operators of the former and of the new job, by name.
        names: the former name of each operator that the new job takes over, by its new name.
    """

    def __init__(self, old: Plan, new: Plan, start: Start) -> None:
        self.old = old
        self.new = new
        self.start = start
        self.before = _operators(old)
        self.after = _operators(new)
        taken = {was for now, was in start.renamed.items() if now in self.after}
        unrenamed = {name: name for name in self.after if name in self.before and name not in taken}
        self.names = unrenamed | {now: was for now, was in start.renamed.items() if was in self.before}

    def of(self, name: str) -> Carried:
        """The outcome for an operator of the new job."""
        was, now = self.before.get(self.names.get(name, "")), self.after[name]
        if was is None:
            begins = "it begins where the job file says" if now.kind == "source" else _begins(now)
            return Carried(name, Fate.NEW, begins)
        if "source" in (was.kind, now.kind):
            return self._source(was, now)
        if not _stateful(was):
            return Carried(name, Fate.NEW if _stateful(now) else Fate.KEPT, _begins(now))
        if differs := "; ".join(self._differences(was, now)):
            return self._unless_dropped(name, Fate.NEW, differs)
        if name in self.start.drop_state:
            return Carried(name, Fate.NEW, "it begins empty, as asked for")
        more = was.parallelism != now.parallelism
        how = f"its state, split by key over {now.parallelism} tasks, from {was.parallelism}" if more else "its state"
        return Carried(name, Fate.KEPT, f"{how}{_formerly(was, now)}")

    def without(self, was: OperatorPlan) -> Carried:
        if was.kind != "source" and not _stateful(was):
            return Carried(was.name, Fate.DROPPED, "the new job has no such operator, and it holds no state")
        lost = "where it was in its topic" if was.kind == "source" else "its state"
        return self._unless_dropped(was.name, Fate.DROPPED, f"the new job has no such operator: {lost} would be lost")

    def _unless_dropped(self, name: str, then: Fate, why: str) -> Carried:
        return Carried(name, then if name in self.start.drop_state else Fate.REFUSED, why)

    def _source(self, was: OperatorPlan, now: OperatorPlan) -> Carried:
        if was.kind != now.kind:
            return self._unless_dropped(now.name, Fate.NEW, f"it was of the kind {was.kind}, and is {now.kind}")
        both = ((self.old, was.name), (self.new, now.name))
        topics = [one.topic for plan, name in both for one in plan.sources if one.operator == name]
        tables = [None if one.source.table is None else list(one.source.table) for one in (was, now)]
        if topics[0] != topics[1]:
            why = f"it read topic {topics[0]}, and reads {topics[1]}"
            return self._unless_dropped(now.name, Fate.NEW, why)
        if tables[0] != tables[1]:
            why = f"its key as a table was {tables[0]}, and is {tables[1]}"
            return self._unless_dropped(now.name, Fate.NEW, why)
        again = now.name in self.start.reread
        begins = "it begins where the job file says" if again else "its positions"
        return Carried(now.name, Fate.KEPT, f"{begins}{_formerly(was, now)}")

    def _differences(self, was: OperatorPlan, now: OperatorPlan) -> Iterator[str]:
        """Reasons why the operator's state would have another meaning in the new job."""
        if was.kind != now.kind:
            yield f"it was of the kind {was.kind}, and is {now.kind}"
            return
        for setting in sorted(was.params.keys() | now.params.keys()):
            before, after = was.params.get(setting, self._by_default(was.name, setting)), now.params.get(setting)
            if setting in ("join", "asof_join"):  # the inputs are compared below
                before, after = _without_names(before), _without_names(after)
            if before != after:
                yield f"its {setting} was {before}, and is {after}"
        if was.parallelism != now.parallelism and split_by(now) is None:
            kind = f"state of {now.kind}" if now.kind != "python" else "state of Python code"
            yield f"it had {was.parallelism} tasks, and has {now.parallelism}: {kind} cannot be split by key"
        if len(was.inputs) != len(now.inputs):
            yield f"it had {len(was.inputs)} inputs, and has {len(now.inputs)}"
            return
        ways = zip(_into(self.old, was), _into(self.new, now), strict=True)
        for slot, (one, other) in enumerate(ways, start=1):
            of_columns, of_way = self._of_columns(one, other), self._of_way(one, other, was, now)
            yield from (f"input {slot} {differs}" for differs in (*of_columns, *of_way))

    def _by_default(self, operator: str, setting: str) -> Any:
        """The value of a setting that did not exist in the release that planned the former job."""
        return self._read_again.get(operator, {}).get(setting)

    @cached_property
    def _read_again(self) -> Mapping[str, Mapping[str, Any]]:
        """The operators of the former job file, with the defaults of this release."""
        try:
            found: Mapping[str, Mapping[str, Any]] = interpret(self.old.spec).as_plain()["operators"]
        except JobRejected:
            return {}
        return found

    def _of_columns(self, one: Edge, other: Edge) -> Iterator[str]:
        was, now = self.before[one.producer], self.after[other.producer]
        if was.fields != now.fields:
            yield _columns(was.fields, now.fields)
        if was.row_key != now.row_key:
            yield f"had rows of the key {list(was.row_key)}, and has {list(now.row_key)}"
        if bool(was.source.table) != bool(now.source.table):
            yield "is a table, and was none" if now.source.table else "was a table, and is none"

    def _of_way(self, one: Edge, other: Edge, was: OperatorPlan, now: OperatorPlan) -> Iterator[str]:
        """Reasons why rows of a key would not reach the task that has their state. Each key has its state in one task:
        in the only task, or in the task that the hash of the key selects."""
        sides = ((one, was), (other, now))
        if was.parallelism == now.parallelism == 1:
            return
        if was.parallelism != now.parallelism:
            if any(edge.routing != "keyed" and operator.parallelism > 1 for edge, operator in sides):
                yield "does not come by key, so the state of its tasks cannot be split"
            return
        producers = self.before[one.producer], self.after[other.producer]
        if (one.routing, one.key) != (other.routing, other.key):
            yield f"came {_way(one)}, and comes {_way(other)}"
        elif one.routing in ("forward", "merge") and producers[0].parallelism != producers[1].parallelism:
            yield f"came from {producers[0].parallelism} tasks, and comes from {producers[1].parallelism}"


def _misnamed(old: Plan, new: Plan, start: Start) -> Iterator[Problem]:
    before, after = _operators(old), _operators(new)
    for now, was in start.renamed.items():
        if now not in after:
            yield Problem("renamed", f"the new job has no operator or source '{now}'", suggest(now, sorted(after)))
        if was not in before:
            yield Problem("renamed", f"there was no operator or source '{was}'", suggest(was, sorted(before)))
        if [*start.renamed.values()].count(was) > 1:
            yield Problem("renamed", f"'{was}' is to be two operators", "name one: the other one begins empty")


def _formerly(was: OperatorPlan, now: OperatorPlan) -> str:
    return "" if was.name == now.name else f", as {was.name} had them" if now.kind == "source" else f" of {was.name}"


def _without_names(join: Any) -> Any:
    return {name: value for name, value in join.items() if name not in ("left", "right")} if join else join


def _columns(was: Mapping[str, str], now: Mapping[str, str]) -> str:
    gone = [f"{name}: {kind}" for name, kind in was.items() if now.get(name) != kind]
    come = [f"{name}: {kind}" for name, kind in now.items() if was.get(name) != kind]
    if not gone and not come:
        return "has its columns in another order"
    parts = [f"lacks {', '.join(gone)}"] if gone else []
    return " and ".join([*parts, *([f"has {', '.join(come)} besides"] if come else [])])


def _way(edge: Edge) -> str:
    return f"by the key {list(edge.key)}" if edge.key else f"by {edge.routing}"


def _into(plan: Plan, operator: OperatorPlan) -> Sequence[Edge]:
    return sorted((edge for edge in plan.edges if edge.consumer == operator.name), key=lambda edge: edge.slot)


def _stateful(operator: OperatorPlan) -> bool:
    kind = KINDS[operator.kind]
    return isinstance(kind, OperatorKind) and kind.stateful(operator.settings)


def _begins(operator: OperatorPlan) -> str:
    return "it begins empty" if _stateful(operator) else "it holds no state"


def _operators(plan: Plan) -> dict[str, OperatorPlan]:
    return {one.name: one for one in plan.operators if one.kind != "sink"}
