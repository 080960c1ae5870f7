"""The operators that replace a query, each described when it is added, with its place in the query."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from holdfast.schemas.job_operators import OPERATORS, kinds
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.planning.loader import part_problems
from holdfast.services.planning.sql.lineage import Lineage
from holdfast.services.planning.sql.names import MOST_LETTERS
from holdfast.services.planning.sql.relation import Names, Relation, named
from holdfast.services.planning.sql.statement import Fault, QueryRefused


class Chain:
    """The operators that replace one query.

    Attributes:
        operators: settings of each operator, by name.
        places: position in the query's text, by path of a part such as `x-where.filter`.

    Args:
        name: name of the query's operator.
        taken: names that are not free.
        lineage: facts about columns; each new operator is added to it.
        parallelism: number of tasks of each operator that may have several; None for the number of its inputs.
    """

    def __init__(self, name: str, taken: Collection[str], lineage: Lineage, parallelism: int | None) -> None:
        self.operators = dict[str, dict[str, Any]]()
        self.places = dict[str, int]()
        self.lineage = lineage
        self._name = name
        self._taken = set(taken)
        self._parallelism = parallelism

    def add(
        self,
        role: str,
        raw: dict[str, Any],
        inputs: Sequence[Relation],
        at: int,
        places: Mapping[str, int] | None = None,
        scopes: Mapping[str, Names] | None = None,
    ) -> Relation:
        """Adds an operator and returns its stream.

        Args:
            role: word in the name of the operator.
            raw: settings of the operator.
            at: position in the query's text.
            places: positions of single settings.
            scopes: names of the new columns; None for the columns' own names.

        Raises:
            QueryRefused: with every mistake of the operator.
        """
        (kind,) = kinds(raw)
        model, places = OPERATORS[kind], places or {}
        try:
            operator = model.model_validate(raw)
            streams = [one.stream for one in inputs]
            stream = catalogue.describe(kind, operator.declared(), streams)
        except ValidationError as error:
            raise QueryRefused(_faults(part_problems(model, kind, error), at, places)) from None
        except JobRejected as rejected:
            raise QueryRefused(_faults(rejected.problems, at, places)) from None
        if self._parallelism is not None and not catalogue.OPERATORS[kind].one_task(operator.settings(), False):
            raw = {**raw, "parallelism": self._parallelism}
        name = self._free(role)
        self.operators[name] = raw
        self.lineage.operators[name] = operator
        self.places[name] = at
        self.places |= {f"{name}.{path}": place for path, place in places.items()}
        return self.relation(name, stream, scopes)

    def relation(self, name: str, stream: Stream, scopes: Mapping[str, Names] | None = None) -> Relation:
        return Relation(name, stream, self.lineage.of(name), scopes or {"": named(stream.fields)})

    def rename(self, name: str) -> None:
        """Gives the operator the name of the query's operator."""
        if name == self._name:
            return
        self.operators = {
            self._name if one == name else one: _renamed(raw, name, self._name) for one, raw in self.operators.items()
        }
        self.places = {
            self._name + path[len(name) :] if f"{path}.".startswith(f"{name}.") else path: at
            for path, at in self.places.items()
        }

    def _free(self, role: str) -> str:
        made, number = f"{self._name[:MOST_LETTERS]}-{role}", 1
        while made in self._taken or made in self.operators:
            number += 1
            made = f"{self._name[:MOST_LETTERS]}-{role}{number}"
        return made


def _renamed(raw: Any, old: str, new: str) -> Any:
    """The settings of an operator with a new name for an input. Only settings for inputs hold names of operators."""
    changed = dict(raw)
    for key in ("input", "left", "right"):
        if changed.get(key) == old:
            changed[key] = new
    for key in ("join", "asof_join"):
        if key in changed:
            changed[key] = _renamed(changed[key], old, new)
    if "union" in changed:
        changed["union"] = [new if one == old else one for one in changed["union"]]
    return changed


def _faults(problems: Sequence[Problem], at: int, places: Mapping[str, int]) -> list[Fault]:
    return [Fault(places.get(one.path, at), _message(one), one.hint) for one in problems]


def _message(problem: Problem) -> str:
    """The message of a problem. The setting's name is added unless the problem is in an expression, whose message names
    the expression."""
    word = problem.path.partition(".")[0].partition("[")[0]
    return problem.message if word in ("filter", "select", "aggregate") else f"{problem.path}: {problem.message}"
