"""Writes a job as the text of a Python module or of a job file.

Source: JOBS "Jobs in Python". The text holds only settings that the job sets itself, no defaults.
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
    """The name of the function that creates a part: `join_sides` for JoinSides."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", part.__name__).lower()


def to_python(spec: JobSpec) -> str:
    """The text of a Python module that defines the job as a variable with the name of the job."""
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
    """The text of a job file in YAML."""
    return yaml.safe_dump(spec.as_written(), sort_keys=False, allow_unicode=True, width=_WIDTH)


def _functions(value: Any) -> set[str]:
    """Names of all functions that the text calls."""
    if isinstance(value, JobPart):
        inner = set().union(*(_functions(one) for one in _settings(value).values()), set())
        return inner | {_FIELDS.get(type(value)) or function_name(type(value))}
    if isinstance(value, Mapping | list):
        parts = value.values() if isinstance(value, Mapping) else value
        return set().union(*(_functions(one) for one in parts), set())
    return set()


_FIELDS: dict[type[JobPart], str] = {Renamed: "renamed", Metadata: "metadata"}
"""Functions that create a field of a source. Their names differ from their models, or their arguments have no names."""


def _settings(part: JobPart) -> dict[str, Any]:
    """The settings that a part sets itself, in the order of its model; the kind of an operator comes first."""
    kind = part.kind if isinstance(part, OperatorSpec) else ""
    names = sorted(type(part).model_fields, key=lambda name: name != kind)
    return {name: getattr(part, name) for name in names if name in part.model_fields_set}


def _text(value: Any, used: set[str], depth: int, taken: int) -> str:
    """Python source text for a value.

    Args:
        used: collects the names of the functions that the text calls.
        depth: indentation level of the line.
        taken: number of characters that precede and follow the value on its line.
    """
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
    """Yields the items in brackets: on one line if there is room, otherwise with a line for each item."""
    line = f"{begin}{', '.join(items)}{end}"
    if "\n" not in line and depth * len(_INDENT) + taken + len(line) <= _WIDTH:
        yield line
        return
    yield begin
    for item in items:
        yield f"\n{_INDENT * (depth + 1)}{item},"
    yield f"\n{_INDENT * depth}{end}"


def _literal(value: Any) -> str:
    """Python source text for a plain value. A text is in double quotes unless these need more escapes than single
    quotes."""
    if isinstance(value, str) and '"' not in value and "\\" not in repr(value):
        return f'"{repr(value)[1:-1]}"'
    return repr(value)
