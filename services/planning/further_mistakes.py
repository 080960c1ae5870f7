"""Finds mistakes of the whole job that exist beside mistakes of single settings.

A job file with a misspelt setting cannot become a JobSpec. So the faulty part is replaced: an operator by one with
unknown output, a section by its default. A mistake that remains is a mistake for every possible meaning of the setting.
The expressions and keys of a faulty operator are checked as well, since they read its inputs. Source: JOBS "Every error
of a job file is reported at once".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from holdfast.schemas.jobs import JobSpec, Source
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.planning import side_outputs
from holdfast.services.planning.assumptions import FOREIGN
from holdfast.services.planning.check import check, entry_of
from holdfast.services.planning.sql import whole as sql

Location = tuple[int | str, ...]
_NO_JOB = (ValidationError, JobRejected, KeyError, TypeError, AttributeError, IndexError)
_VALUES = (None, 60, 1, "column", True)
"""Replacements for a faulty setting; None leaves the setting out."""
_READS = re.compile(r"(?:filter|select\[|aggregate\.|key\[|(?:join|asof_join)\.on\[|top\.by|unnest\.column)")
"""Settings that read columns of the inputs."""
_UNKNOWN = "unknown_code:Code"
"""Code that replaces a faulty operator, as an operator with unknown output."""


def remaining(raw: Mapping[str, Any], faults: Iterable[Location]) -> list[Problem]:
    """Problems outside of the faulty operators, queries and sections; none if the rest is not a valid job.

    Args:
        faults: location of each faulty setting.
    """
    places = list(faults)
    sections = [raw.get("sources"), raw.get("operators") or {}, raw.get("queries") or {}]
    if not sections[0] or not all(isinstance(one, Mapping) for one in sections):
        return []
    try:
        left = _without(raw, places)
        found = _problems(left)
    except _NO_JOB:
        return []
    own = [".".join(map(str, one[:2])) for one in places]
    own = [one for one in own if not one.startswith("sources.")] + [*_open_of_sources(raw, places)]
    others = [one for one in found if not any(f"{one.path}.".startswith(f"{path}.") for path in own)]
    return others + [one for name in _named(places, "operators") for one in _of_operator(raw, left, name, places)]


def _open_of_sources(raw: Mapping[str, Any], places: Sequence[Location]) -> Iterator[str]:
    """Paths of settings of faulty sources whose mistakes may follow from the fault: all but the types of the fields,
    unless the fault lies there or in the format of records and keys.
    """
    for name in _named(places, "sources"):
        faulty = {str(one[2]) for one in places if one[:2] == ("sources", name) and len(one) > 2}
        whole = not faulty or faulty & {"fields", "format", "key_format"} or not isinstance(raw["sources"][name], dict)
        if whole:
            yield f"sources.{name}"
        else:
            yield from (f"sources.{name}.{one}" for one in Source.model_fields if one != "fields")


def _problems(left: Mapping[str, Any]) -> list[Problem]:
    given = JobSpec.model_validate(left)
    modules = [entry.split(":")[0] for entry in map(entry_of, given.operators.values()) if entry]
    queries = sql.whole(given, modules, _described)
    whole = side_outputs.whole(queries.spec)
    return queries.as_written(whole.as_written(check(whole.spec, modules, _described).problems))


def _of_operator(
    raw: Mapping[str, Any], left: Mapping[str, Any], name: str, places: Sequence[Location]
) -> list[Problem]:
    """Mistakes in the expressions and keys of a faulty operator; none if its inputs or its kind are faulty.

    Args:
        left: the job without its faulty parts.
        places: location of each faulty setting.
    """
    own = [one for one in places if one[:2] == ("operators", name)]
    entry = raw["operators"][name]
    if not isinstance(entry, dict) or any(len(one) < 4 for one in own) or any("input" in one for one in own):
        return []
    paths = [".".join(map(str, (*one[:2], *one[3:]))) for one in own]
    try:
        mended = _mended(entry, left, name, [one[3:] for one in own])
        found = _problems(_with(left, name, mended))
    except _NO_JOB:
        return []
    return [
        one
        for one in found
        if _READS.match(one.path.removeprefix(f"operators.{name}."))
        and one.path.startswith(f"operators.{name}.")
        and not any(f"{one.path}.".startswith(f"{path}.") for path in paths)
    ]


def _mended(entry: Mapping[str, Any], left: Mapping[str, Any], name: str, faults: Sequence[Location]) -> Any:
    """The operator with each faulty setting replaced by an allowed value, or left out, alone or with its section."""
    mended: Any = deepcopy(entry)
    for fault in faults:
        mended = min(
            [*(_changed(mended, fault, value) for value in _VALUES), _changed(mended, fault[:1], None)],
            key=lambda one: len(_errors(_with(left, name, one))),
        )
    return mended


def _changed(entry: Any, fault: Location, value: Any) -> Any:
    """A copy of the operator with another value of a setting; a value of None leaves the setting out."""
    changed = deepcopy(entry)
    inner = changed
    for step in fault[:-1]:
        inner = inner[step]
    if value is None:
        inner.pop(fault[-1], None)
    else:
        inner[fault[-1]] = value
    return changed


def _errors(left: Mapping[str, Any]) -> list[Any]:
    try:
        JobSpec.model_validate(left)
    except ValidationError as error:
        return list(error.errors())
    return []


def _with(left: Mapping[str, Any], name: str, entry: Any) -> dict[str, Any]:
    return {**left, "operators": {**left["operators"], name: entry}}


def _described(kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    """Describes operators other than Python and Spark operators. The code of users is not run for a job that is refused
    anyway."""
    if kind in FOREIGN:
        raise JobRejected(())
    return catalogue.describe(kind, params, inputs)


def _without(raw: Mapping[str, Any], places: Sequence[Location]) -> dict[str, Any]:
    left = {**raw, "name": raw.get("name") if ("name",) not in places else "job"}
    first = next(iter(raw["sources"]))
    names = {*raw["sources"], *(raw.get("operators") or {})}
    for section in {one[0] for one in places} - {"sources", "operators", "queries", "name"}:
        left.pop(str(section), None)
    for section in ("operators", "queries"):
        entries = dict(raw.get(section) or {})
        for name in _named(places, section):
            given = entries[name].get("input") if isinstance(entries.get(name), dict) else None
            read = given if isinstance(given, str) and given in names else first
            entries[name] = {"input": read} | ({"python": _UNKNOWN} if section == "operators" else {})
        if section in raw:
            left[section] = entries
    left["sources"] = {name: _source(source, name, places) for name, source in raw["sources"].items()}
    return left


def _named(places: Sequence[Location], section: str) -> Iterator[str]:
    yield from {str(one[1]) for one in places if one[0] == section and len(one) > 1}


def _source(source: Any, name: str, places: Sequence[Location]) -> Any:
    """A source without its faulty settings."""
    settings = {str(one[2]) for one in places if one[:2] == ("sources", name) and len(one) > 2}
    return {key: value for key, value in source.items() if key not in settings}
