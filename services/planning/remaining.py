"""Remaining: the mistakes of the whole job that stand beside mistakes of single settings.

A job file with a misspelt setting is no JobSpec. What is at fault is taken out: an operator becomes one of which
nothing is known, a section its default. What is then still wrong is wrong whatever the setting was meant to be.
Source: JOBS "Every error of a job file is reported at once".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.planning.assuming import FOREIGN
from holdfast.services.planning.checking import check, entry_of

Location = tuple[int | str, ...]
_UNKNOWN = "unknown_code:Code"
"""Stands for an operator that is at fault: nobody knows what it puts out."""


def remaining(raw: Mapping[str, Any], faults: Iterable[Location]) -> list[Problem]:
    """Problems outside of the operators, queries and sections at fault; none where the rest is no job.

    Args:
        faults: where each mistake of a setting is.
    """
    places = list(faults)
    sections = [raw.get("sources"), raw.get("operators") or {}, raw.get("queries") or {}]
    if not sections[0] or not all(isinstance(one, Mapping) for one in sections):
        return []
    try:
        spec = JobSpec.model_validate(_without(raw, places))
        modules = [entry.split(":")[0] for entry in map(entry_of, spec.operators.values()) if entry]
        found = check(spec, modules, _described).problems
    except (ValidationError, JobRejected, KeyError, TypeError, AttributeError):
        return []
    own = [".".join(map(str, one[:2])) for one in places]
    return [one for one in found if not any(f"{one.path}.".startswith(f"{path}.") for path in own)]


def _described(kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    """Code of users is not run for a job that is refused anyway."""
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
    """A source without the settings that are at fault; without its fields it is no source."""
    settings = {str(one[2]) for one in places if one[:2] == ("sources", name) and len(one) > 2}
    return {key: value for key, value in source.items() if key not in settings}
