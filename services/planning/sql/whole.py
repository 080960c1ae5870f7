"""Replaces the queries in SQL of a job by operators, so that no other module sees SQL.

A query is planned when the columns of all its inputs are known, so queries follow the order of the job's inputs. A
refused query is left out with everything that reads it, directly or not, because their columns are unknown. Source:
JOBS "sql".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from holdfast.schemas.job_operators import Sql
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.planning import side_outputs
from holdfast.services.planning.check import Describe, check
from holdfast.services.planning.graph import Graph, cycle_problems, sink_name

_PROBE = "probe"
"""Name of the query that finds the columns of an input."""


class Whole(NamedTuple):
    """A job without queries in SQL.

    Attributes:
        spec: the job.
        made: operator of the job file, by operator made from it.
        places: place in the query such as `line 2, column 7`, by path of a part of an operator made from it.
        problems: problems of the queries.
        probed: True if none of the user's `queries` is left and a single substitute stands in their place.
    """

    spec: JobSpec
    made: dict[str, str]
    places: dict[str, str]
    problems: tuple[Problem, ...] = ()
    probed: bool = False

    def as_written(self, problems: Sequence[Problem]) -> list[Problem]:
        """The problems at the queries that the user wrote, each problem once."""
        own = [one for one in problems if not self.probed or not one.path.startswith(f"queries.{_PROBE}.")]
        return list(dict.fromkeys([*self.problems, *map(self._written, own)]))

    def _written(self, problem: Problem) -> Problem:
        section, _, rest = problem.path.partition(".")
        name = rest.partition(".")[0].partition("[")[0]
        if section != "operators" or name not in self.made:
            return problem
        at = max((one for one in self.places if f"{rest}.".startswith((f"{one}.", f"{one}["))), key=len, default=name)
        path = f"operators.{self.made[name]}.sql"
        return Problem(path, f"{self.places.get(at, '')}: {problem.message}".lstrip(": "), problem.hint)


def whole(spec: JobSpec, allow: Sequence[str], describe: Describe = catalogue.describe) -> Whole:
    """The job with operators in place of its queries in SQL.

    Args:
        allow, describe: as in `check`.
    """
    if not any(isinstance(one, Sql) for one in spec.operators.values()):
        return Whole(spec, {}, {})
    return _Expansion(spec, allow, describe).whole()


class _Expansion:
    """A job while its queries are replaced by operators."""

    def __init__(self, spec: JobSpec, allow: Sequence[str], describe: Describe) -> None:
        self._spec = spec
        self._allow = allow
        self._describe = describe
        self._graph = Graph.of(spec)
        self._raw = spec.as_written()
        self._operators: dict[str, Any] = {
            name: raw for name, raw in self._raw["operators"].items() if not isinstance(spec.operators[name], Sql)
        }
        self._made = dict[str, str]()
        self._places = dict[str, str]()
        self._problems = list[Problem]()
        self._lost = set[str]()

    def whole(self) -> Whole:
        queries = [name for name, one in self._spec.operators.items() if isinstance(one, Sql)]
        for name in self._graph.order:
            if any(slot.producer.partition(".")[0] in self._lost for slot in self._graph.slots[name]):
                self._lost.add(name)
            elif name in queries:
                self._expand(name)
        unplaced = [name for name in queries if name not in self._graph.order]
        self._problems += self._unplaced(unplaced)
        self._lost |= {name for name in self._graph.slots if name not in self._graph.order}
        kept = {name: one for name, one in self._raw["queries"].items() if sink_name(name) not in self._lost}
        return Whole(self._left(kept), self._made, self._places, tuple(self._problems), probed=not kept)

    # -- one query ----------------------------------------------------------------------------------------------------

    def _expand(self, name: str) -> None:
        from holdfast.services.planning.sql.chain import Chain  # only jobs in SQL load the parser
        from holdfast.services.planning.sql.lineage import Lineage
        from holdfast.services.planning.sql.planner import Planner
        from holdfast.services.planning.sql.relation import Relation, named
        from holdfast.services.planning.sql.statement import QueryRefused, Statement

        written = self._spec.operators[name]
        assert isinstance(written, Sql)
        try:
            statement = Statement(written.sql)
            sub, streams = self._read(written.inputs)
            if len(streams) < len(written.inputs):
                self._lost.add(name)  # a problem of what it reads, which is reported there
                return
            lineage = Lineage(sub.sources, sub.operators)
            base = {
                one: Relation(one, stream, lineage.of(one), {one: named(stream.fields)}, key=_key(sub, one))
                for one, stream in streams.items()
            }
            taken = {*self._graph.slots, *self._operators, *self._raw["operators"]}
            chain = Chain(name, taken, lineage, written.parallelism)
            chain.rename(Planner(statement, chain, base).whole().producer)
        except QueryRefused as refused:
            self._problems += [
                Problem(f"operators.{name}.sql", f"{place(written.sql, one.at)}: {one.message}", one.hint)
                for one in refused.faults
            ]
            self._lost.add(name)
            return
        self._operators |= chain.operators
        self._made |= dict.fromkeys(chain.operators, name)
        self._places |= {path: place(written.sql, at) for path, at in chain.places.items()}
        for unit in self._raw.get("placement", {}).get("units", ()):
            if name in unit:
                unit += [one for one in chain.operators if one not in unit]

    def _read(self, inputs: Sequence[str]) -> tuple[JobSpec, dict[str, Stream]]:
        """The part of the job above these inputs, and the streams of those inputs that have no problems."""
        if not inputs:
            return self._spec, {}
        upstream = {above for one in inputs for above in self._graph.upstream(one.partition(".")[0])}
        needed = {one for one in (*self._operators, *self._made) if self._made.get(one, one) in upstream}
        raw = {
            "name": self._spec.name,
            "sources": self._raw["sources"],
            "operators": {one: raw for one, raw in self._operators.items() if one in needed},
            "queries": {f"{_PROBE}{index}": {"input": one} for index, one in enumerate(inputs)},
        }
        apart = side_outputs.whole(JobSpec.model_validate(raw))
        checked = check(apart.spec, self._allow, self._describe)
        found = {one: checked.streams.get(sink_name(f"{_PROBE}{index}")) for index, one in enumerate(inputs)}
        return apart.spec, {one: stream for one, stream in found.items() if stream is not None}

    # -- the whole job ------------------------------------------------------------------------------------------------

    def _unplaced(self, names: Sequence[str]) -> Iterator[Problem]:
        """Problems of queries that read unknown names, or their own rows."""
        known = [*self._spec.sources, *self._spec.operators]
        for name in names:
            path, written = f"operators.{name}.sql", self._spec.operators[name]
            assert isinstance(written, Sql)
            for one, at in read_at(written.sql).items():
                if one.partition(".")[0] not in known:
                    message = f"there is no source or operator '{one}'"
                    hint = suggest(one, [other for other in known if other != name])
                    yield Problem(path, f"{place(written.sql, at)}: {message}", hint)
            yield from (one for one in cycle_problems(self._graph) if one.path == path)

    def _left(self, queries: dict[str, Any]) -> JobSpec:
        """The job without the operators that are left out. `queries` holds the remaining queries; if it is empty, a
        substitute keeps the job valid."""
        raw = dict(self._raw)
        raw["operators"] = {name: one for name, one in self._operators.items() if name not in self._lost}
        raw["queries"] = queries or {_PROBE: {"input": next(iter(raw["sources"]))}}
        gone = {one for one in self._lost if one in self._raw["operators"]}
        return JobSpec.model_validate(_without(raw, gone))


def _without(raw: dict[str, Any], gone: set[str]) -> dict[str, Any]:
    """The job without settings of the operators that are left out; these settings would be reported as mistakes."""
    if not gone:
        return raw
    units = raw.get("fault_tolerance", {}).get("units")
    if units is not None:
        kept = {name: one for name, one in units.items() if name not in gone and name.rpartition("-")[0] not in gone}
        raw = {**raw, "fault_tolerance": {**raw["fault_tolerance"], "units": kept}}
    if "placement" in raw:
        placed = [[one for one in unit if one not in gone] for unit in raw["placement"].get("units", ())]
        raw = {**raw, "placement": {**raw["placement"], "units": [unit for unit in placed if unit]}}
    return raw


def _key(spec: JobSpec, name: str) -> tuple[str, ...] | None:
    source = spec.sources.get(name)
    return None if source is None or source.table is None else tuple(source.table)


def read_at(text: str) -> dict[str, int]:
    """The position at which a query names each of its inputs."""
    from sqlglot import exp

    from holdfast.schemas.sql_dialect import statements, table_name, tables, without_comments

    found = dict[str, int]()
    for statement in statements(without_comments(text)):
        for one in statement.find_all(exp.Table):
            if (name := table_name(one)) in tables(text):
                found.setdefault(
                    name, min((part.meta["start"] for part in one.walk() if "start" in part.meta), default=0)
                )
    return found


def place(text: str, at: int) -> str:
    """A position as text, such as `line 2, column 7`."""
    before = text[:at]
    return f"line {before.count(chr(10)) + 1}, column {at - (before.rfind(chr(10)) + 1) + 1}"
