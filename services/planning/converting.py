"""A job as the text of a Python module, or of a job file: the same job, in the other form.

Source: JOBS "Jobs in Python". The text holds the settings that the job says, and no defaults.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from holdfast.schemas.job_operators import OperatorSpec
from holdfast.schemas.job_part import JobPart
from holdfast.schemas.jobs import JobSpec, Metadata, Renamed

_WIDTH = 120
_INDENT = "    "


def function_name(part: type[JobPart]) -> str:
    """The function that makes a part: join_sides for JoinSides."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", part.__name__).lower()


def to_python(spec: JobSpec) -> str:
    """A module that defines the job, under the job's name."""
    used = {"Job"}
    name = re.sub(r"\W", "_", spec.name)
    name = f"{name}_job" if keyword.iskeyword(name) or name in _functions(spec) else name
    text = "".join(_call("Job", _settings(spec), used, 0, len(name) + 3))
    names = sorted(used, key=lambda one: (one.islower(), one))
    imports = f"from holdfast import {', '.join(names)}"
    if len(imports) > _WIDTH:
        imports = "from holdfast import (\n" + "".join(f"{_INDENT}{one},\n" for one in names) + ")"
    return f"{imports}\n\n{name} = {text}\n"


def to_yaml(spec: JobSpec) -> str:
    """A job file."""
    return yaml.safe_dump(spec.as_written(), sort_keys=False, allow_unicode=True, width=_WIDTH)


def _functions(value: Any) -> set[str]:
    """Every function that the text calls."""
    if isinstance(value, JobPart):
        inner = set().union(*(_functions(one) for one in _settings(value).values()), set())
        return inner | {_FIELDS.get(type(value)) or function_name(type(value))}
    if isinstance(value, Mapping | list):
        parts = value.values() if isinstance(value, Mapping) else value
        return set().union(*(_functions(one) for one in parts), set())
    return set()


_FIELDS: dict[type[JobPart], str] = {Renamed: "renamed", Metadata: "metadata"}
"""Functions of a field, whose names are not those of their models, or whose settings are not named."""


def _settings(part: JobPart) -> dict[str, Any]:
    """Settings that the job has, in the order of the model; of an operator, its kind comes first."""
    kind = part.kind if isinstance(part, OperatorSpec) else ""
    names = sorted(type(part).model_fields, key=lambda name: name != kind)
    return {name: getattr(part, name) for name in names if name in part.model_fields_set}


def _text(value: Any, used: set[str], depth: int, taken: int) -> str:
    """Python for a value. depth: of its line; taken: characters of the line that stand before and behind it."""
    if isinstance(value, Renamed):
        used.add("renamed")
        return f"renamed({_literal(value.type)}, {_literal(value.from_)})"
    if isinstance(value, Metadata):
        used.add("metadata")
        return f"metadata({_literal(value.type)}, {_literal(value.metadata)})"
    if isinstance(value, JobPart):
        name = function_name(type(value))
        used.add(name)
        return "".join(_call(name, _settings(value), used, depth, taken))
    if isinstance(value, Mapping):
        items = [f"{_literal(key)}: {_inner(one, used, depth, len(_literal(key)) + 3)}" for key, one in value.items()]
        return "".join(_listed("{", items, "}", depth, taken))
    if isinstance(value, list | tuple):
        return "".join(_listed("[", [_inner(one, used, depth, 1) for one in value], "]", depth, taken))
    return _literal(value)


def _inner(value: Any, used: set[str], depth: int, taken: int) -> str:
    return _text(value, used, depth + 1, taken)


def _call(name: str, settings: Mapping[str, Any], used: set[str], depth: int, taken: int) -> Iterator[str]:
    items = [f"{key}={_inner(one, used, depth, len(key) + 2)}" for key, one in settings.items()]
    return _listed(f"{name}(", items, ")", depth, taken)


def _listed(begin: str, items: list[str], end: str, depth: int, taken: int) -> Iterator[str]:
    """In one line where it has room, else a line for each item."""
    line = f"{begin}{', '.join(items)}{end}"
    if "\n" not in line and depth * len(_INDENT) + taken + len(line) <= _WIDTH:
        yield line
        return
    yield begin
    for item in items:
        yield f"\n{_INDENT * (depth + 1)}{item},"
    yield f"\n{_INDENT * depth}{end}"


def _literal(value: Any) -> str:
    """Text in double quotes where that needs no more escapes."""
    if isinstance(value, str) and '"' not in value and "\\" not in repr(value):
        return f'"{repr(value)[1:-1]}"'
    return repr(value)
