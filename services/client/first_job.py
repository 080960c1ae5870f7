"""A first job file from a sample of records: fields with their types, event time, and a query that runs. Pure.

A guess is right for the sample and may be wrong for later records, so comments in the file mark the guesses. Source:
JOBS "A job file".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from holdfast.services.kernel.errors import CommandFailed, JobRejected
from holdfast.services.kernel.plurals import plural
from holdfast.services.planning.loader import load

SAMPLE = 1_000
"""Number of records in the sample."""
WINDOW_S = 3_600
Record = Mapping[str, Any]
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
"""Words that YAML does not read as text."""
_NAMES = ("event_time", "timestamp", "time", "datetime", "ts", "at", "date", "created_at", "occurred_at", "period")
_TIMELY = re.compile(
    r"(^|_)(time|timestamp|datetime|ts|at|date|epoch|millis|ms|when)($|_)|(Time|At|Date)$", re.IGNORECASE
)
_FIRST_S, _LAST_S = 631_152_000, 4_102_444_800
"""1990 and 2100: numbers between them, in some unit, may be times."""
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class Draft:
    """A guessed job.

    fields: type by name.
    left_out: fields that no source can have.
    unit: unit of times that are numbers; empty: texts.
    lateness_s: largest lag of a time behind an earlier one in the sample, seconds.
    key: field by which rows are counted; empty: the query returns the records unchanged.
    records: number of records in the sample.
    """

    name: str
    source: str
    origin: Mapping[str, str]
    fields: Mapping[str, str]
    event_time: str = ""
    unit: str = ""
    lateness_s: int = 0
    key: str = ""
    left_out: tuple[str, ...] = ()
    records: int = 0

    def text(self) -> str:
        """The job file."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"# Types and event time are guessed from {plural(self.records, 'record')}: look them over."
        yield f"name: {self.name}"
        yield "sources:"
        yield f"  {self.source}:"
        for setting, value in self.origin.items():
            yield f"    {setting}: {_scalar(value)}"
        yield "    fields:  # `?` behind a type: may be null"
        for field, kind in self.fields.items():
            yield f"      {_scalar(field)}: {_scalar(kind)}"
        if self.left_out:
            yield f"    # left out, since no source can have them: {', '.join(map(_scalar, self.left_out))}"
        if self.event_time:
            yield f"    event_time: {_scalar(self.event_time)}"
            if self.unit:
                yield f"    unit: {self.unit}"
            yield f"    allowed_lateness_s: {self.lateness_s}  # how far records may come out of order"
        else:
            yield "    # no event_time: the time at which Kafka got a record counts"
        if self.key:
            yield "operators:"
            yield "  counted:"
            yield '    aggregate: {records: "count()"}'
            yield f"    key: [{_scalar(self.key)}]"
            if self.event_time:
                yield f"    window: {{size_s: {WINDOW_S}}}"
                yield "    emit: final  # a row of each key when its hour is over"
            yield f"    input: {self.source}"
        yield "queries:"
        yield "  results:"
        yield f"    input: {'counted' if self.key else self.source}"
        yield f"    sink: {{topic: {self.name}-results}}"


def _scalar(text: str) -> str:
    plain = _PLAIN.fullmatch(text.removesuffix("?")) is not None and text.lower() not in _WORDS
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())


def draft(records: Sequence[Record], name: str, source: str, origin: Mapping[str, str]) -> Draft:
    """A draft that `holdfast check` accepts.

    Args:
        origin: `topic`, `path` and `format` of the source, as far as they are known.

    Raises:
        CommandFailed: there is no record, or no job can be made of these.
    """
    if not records:
        raise CommandFailed("the sample has no record", "give a file or a topic that holds some")
    values: dict[str, list[Any]] = {}
    for record in records:
        for field, value in record.items():
            values.setdefault(field, []).append(value)
    types = {field: _type(some) for field, some in values.items()}
    missing = {field for field, some in values.items() if len(some) < len(records) or any(v is None for v in some)}
    event_time, unit = _event_time(values, types, missing)
    if unit and types[event_time] == "int":  # a number with a fraction stays one
        types[event_time] = "timestamp"
    fields = {field: kind + "?" * (field in missing and not kind.endswith("?")) for field, kind in types.items()}
    found = Draft(
        name,
        source,
        origin,
        fields,
        event_time=event_time,
        unit=unit,
        lateness_s=_lateness_s(values.get(event_time, []), unit),
        key=_key(values, types, missing, event_time),
        records=len(records),
    )
    return _accepted(found)


def _accepted(found: Draft) -> Draft:
    """The draft without fields that a job file cannot have, such as names of columns that the product itself uses."""
    for _ in range(len(found.fields) + 2):
        problems = _problems(found)
        if not problems:
            return found
        prefix = f"sources.{found.source}.fields."
        bad = {
            one
            for one in found.fields
            for path, _ in problems
            if path == prefix + one or path.startswith(f"{prefix}{one}.")
        }
        if not bad and found.key:
            found = replace(found, key="")
            continue
        if not bad or len(bad) == len(found.fields):
            break
        fields = {one: kind for one, kind in found.fields.items() if one not in bad}
        found = replace(
            found,
            fields=fields,
            left_out=(*found.left_out, *sorted(bad)),
            event_time="" if found.event_time in bad else found.event_time,
            unit="" if found.event_time in bad else found.unit,
            key="" if found.key in bad else found.key,
        )
    told = "; ".join(f"{path}: {message}" for path, message in problems)
    raise CommandFailed(f"no job file comes out of the sample: {told}", "write it by hand: docs/jobs.md")


def _problems(found: Draft) -> list[tuple[str, str]]:
    from holdfast.services.client.planned_job import plan

    try:
        plan(load(found.text(), "job.yaml"), None, "holdfast", [])
    except JobRejected as rejected:
        return [(one.path, one.message) for one in rejected.problems]
    return []


# -- types ------------------------------------------------------------------------------------------------------------


def _type(values: Sequence[Any]) -> str:
    """Type of a field, by its values in the sample. Of unlike values the most frequent kind counts: records with others
    become dead letters, which `holdfast init` reports.
    """
    some = _alike([value for value in values if value is not None])
    if not some:
        return "string?"
    if all(isinstance(value, bool) for value in some):
        return "bool"
    if all(isinstance(value, int) and not isinstance(value, bool) for value in some):
        return "int" if all(-(2**63) <= value < 2**63 for value in some) else "float"
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in some):
        return "float"
    if all(isinstance(value, str) for value in some):
        return _type_of_texts(some)
    if all(isinstance(value, list) for value in some):
        inner = [one for value in some for one in value]
        return f"list<{_type(inner) + '?' * (None in inner) if inner else 'string'}>"
    if all(isinstance(value, dict) for value in some):
        return _struct(some)
    return "string"


def _alike(values: Sequence[Any]) -> Sequence[Any]:
    """The values of the commonest kind; of kinds that are equally common the first one."""
    kinds: dict[str, list[Any]] = {}
    for value in values:
        kind = "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
        kinds.setdefault(kind, []).append(value)
    return max(kinds.values(), key=len, default=[])


def _struct(values: Sequence[Mapping[str, Any]]) -> str:
    names = dict.fromkeys(name for value in values for name in value)
    kinds = {name: _type([value.get(name) for value in values]).removesuffix("?") for name in names}
    missing = {name for name in names if any(value.get(name) is None for value in values)}
    return (
        f"struct<{', '.join(f'{name}: {kind}' + '?' * (name in missing) for name, kind in kinds.items())}>"
        if names
        else "string"
    )


def _type_of_texts(values: Sequence[str]) -> str:
    if all(_TIME.fullmatch(value) and _moment(value) is not None for value in values):
        return "timestamp"
    if all(_DATE.fullmatch(value) and _moment(value) is not None for value in values):
        return "date"
    return "string"


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


# -- time and key -----------------------------------------------------------------------------------------------------


def _event_time(values: Mapping[str, Sequence[Any]], types: Mapping[str, str], missing: set[str]) -> tuple[str, str]:
    """The field and its unit; a field that may be null is no event time."""
    whole = [field for field in values if field not in missing]
    texts = [field for field in whole if types[field] == "timestamp"]
    numbers = {
        field: unit for field in whole if types[field] in ("int", "float") and (unit := _unit(field, values[field]))
    }
    found = sorted([*texts, *numbers], key=lambda field: (_rank(field), field in numbers))
    return (found[0], numbers.get(found[0], "")) if found else ("", "")


def _rank(field: str) -> int:
    name = field.lower()
    return _NAMES.index(name) if name in _NAMES else len(_NAMES)


def _unit(field: str, values: Sequence[float]) -> str:
    """Unit of numbers that may be times. Seconds look like any number, so they count only in a field with a name of a
    time.
    """
    for unit, per_s in _UNITS.items():
        if all(_FIRST_S * per_s <= value < _LAST_S * per_s for value in values):
            return unit if unit != "s" or _TIMELY.search(field) else ""
    return ""


def _lateness_s(values: Sequence[Any], unit: str) -> int:
    newest, behind = -math.inf, 0.0
    for value in values:
        moment = None if unit else _moment(str(value))
        time_s = value / _UNITS[unit] if unit else moment.timestamp() if moment is not None else newest
        newest = max(newest, time_s)
        behind = max(behind, newest - time_s)
    return math.ceil(behind)


def _key(values: Mapping[str, Sequence[Any]], types: Mapping[str, str], missing: set[str], event_time: str) -> str:
    """A field with few values, texts first, as people count by it. Empty if each value is distinct."""
    found = []
    for field, some in values.items():
        if field == event_time or field in missing or types[field] not in ("string", "bool", "int"):
            continue
        distinct = len({repr(value) for value in some})
        if distinct <= max(1, len(some) // 2):
            found.append((types[field] != "string", distinct == 1, distinct, field))
    return min(found)[-1] if found else ""
