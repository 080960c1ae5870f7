"""Turns each of pydantic's error types into a message and a hint for a job file.

Source: JOBS "each with its path and a hint".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic_core import ErrorDetails

from holdfast.schemas.job_operators import OPERATORS, kinds
from holdfast.schemas.job_part import JobPart
from holdfast.schemas.jobs import METADATA, JobSpec, Metadata, Renamed
from holdfast.schemas.topics import NAME
from holdfast.services.kernel.plurals import digits
from holdfast.services.kernel.suggestions import did_you_mean, suggest
from holdfast.services.planning.foreign_words import operator_for, setting_for

Words = tuple[str, str]
"""A message and a hint."""


def words(error: ErrorDetails, root: type[JobPart] = JobSpec) -> Words:
    """The message and hint for one of pydantic's errors. `root` is the model at which the error's location begins."""
    if error["type"] in _OF_SETTINGS:
        return _OF_SETTINGS[error["type"]](error, root)
    return _MESSAGES.get(error["type"], _as_it_is)(error)


def _as_it_is(error: ErrorDetails) -> Words:
    return error["msg"], ""


def _missing(error: ErrorDetails, root: type[JobPart]) -> Words:
    owner = _owner(error["loc"][:-1], root)
    about = "" if owner is None else owner.described().get(str(error["loc"][-1]), "")
    return "is missing", about.partition("\n")[0]


def _unknown(error: ErrorDetails, root: type[JobPart]) -> Words:
    owner, word = _owner(error["loc"][:-1], root), str(error["loc"][-1])
    settings = owner.model_fields if owner is not None else {}
    if word in ("input", "inputs") and (said := _INPUTS.get(owner.__name__ if owner is not None else "")):
        return "is not a setting", f"leave it out: {said}"
    if meant := setting_for(word, settings):
        return "is not a setting", f"did you mean '{meant}'?"
    if word in _CONDITIONS and "input" in settings:
        return "is not a setting", "write a filter operator before this one or behind it"
    return "is not a setting", suggest(word, settings)


def _not_an_option(error: ErrorDetails) -> Words:
    options = re.findall(r"'([^']*)'", str(error["ctx"]["expected"]))
    message = f"{_shown(error['input'])} is not one of {', '.join(options)}"
    begun = [one for one in options if str(error["input"]) and one.startswith(str(error["input"]).lower())]
    near = f"did you mean '{begun[0]}'?" if len(begun) == 1 else ""
    return message, near or did_you_mean(str(error["input"]), options)


_INPUTS = {
    "Sql": "a query reads what FROM and JOIN name",
    "Join": "a join reads its left and its right",
    "AsOfJoin": "a join reads its left and its right",
    "Union": "a union reads what it lists",
}
"""Hints for operators that have another setting for their inputs."""
_CONDITIONS = ("where", "having", "filter", "condition", "if", "when")


def _not_a(kind: str) -> Callable[[ErrorDetails], Words]:
    return lambda error: (f"expected {kind}, found {found(error['input'])}", _type_hint(error, kind))


def _type_hint(error: ErrorDetails, kind: str) -> str:
    value = error["input"]
    if (
        kind == "a list"
        and error["loc"][-1:] == ("on",)
        and not (isinstance(value, str) and re.fullmatch(r"\w+", value))
    ):
        return 'write "on": [id] where both sides have the column, and "on": ["id = code"] where it has two names'
    if kind == "a list" and isinstance(value, str):
        return f"write [{value}]"
    if kind == "a list" and error["loc"][-1:] == ("select",) and isinstance(value, dict) and value:
        name, expression = next(iter(value.items()))
        return f"write ['{expression} AS {name}']"
    if kind == "text" and isinstance(value, (bool, int, float)):
        named = error["loc"] == ("name",) or (len(error["loc"]) == 3 and error["loc"][-1] == "[key]")
        return _PATTERNS["name"] if named else f'write it in quotes: "{_shown(value)}"'
    if value is None and "fields" in error["loc"]:
        return 'quote a type that holds a comma, such as "decimal(10,2)"'
    if isinstance(value, str) and kind in ("a number", "a whole number") and re.fullmatch(r"[\d.]+", value):
        return f"write {value} without quotes"
    return ""


def _bound(words: str, key: str) -> Callable[[ErrorDetails], Words]:
    return lambda error: (f"{_shown(error['input'])} is too {words} {_number(error['ctx'][key])}", "")


def _too_few(error: ErrorDetails) -> Words:
    least = error["ctx"]["min_length"]
    return f"needs at least {least} {'entry' if least == 1 else 'entries'}", ""


_PATTERNS = {
    "name": "lower-case letters, digits, - and _, starting with a letter, at most 63 characters",
    "topic name": "letters, digits, dots, - and _, at most 249 characters",
    "entry point": "package.module:Name",
}


def _pattern(error: ErrorDetails) -> Words:
    pattern, value = str(error["ctx"]["pattern"]), str(error["input"])
    kind = "entry point" if ":" in pattern else "topic name" if "249" in pattern else "name"
    better = re.sub(r"[^a-z0-9_-]+", "_", value.lower()).strip("_-")
    hint = f"did you mean '{better}'? " if kind == "name" and NAME.fullmatch(better) else ""
    return f"{_shown(value)} is not a valid {kind}", f"{hint}{_PATTERNS[kind]}"


def _operator_kind(error: ErrorDetails) -> Words:
    value = error["input"]
    if not isinstance(value, dict):
        return f"expected a mapping, found {found(value)}", 'such as {filter: "x > 1", input: ...}'
    both = kinds(value)
    if both:
        return f"is {' and '.join(both)} at once", "an operator does one thing: make it several, one feeding the next"
    known = next((hint for key in map(str, value) if (hint := operator_for(key))), "")
    if known:
        return f"is no operator: it has none of {', '.join(OPERATORS)}", known
    near = {key: hint for key in map(str, value) if (hint := did_you_mean(key, OPERATORS))}
    hint = next((f"{hint[:-1]} instead of '{key}'?" for key, hint in near.items()), "")
    return f"is no operator: it has none of {', '.join(OPERATORS)}", hint


_OF_SETTINGS: dict[str, Callable[[ErrorDetails, type[JobPart]], Words]] = {
    "missing": _missing,
    "extra_forbidden": _unknown,
}
_MESSAGES: dict[str, Callable[[ErrorDetails], Words]] = {
    "literal_error": _not_an_option,
    "string_type": _not_a("text"),
    "int_type": _not_a("a whole number"),
    "int_from_float": _not_a("a whole number"),
    "float_type": _not_a("a number"),
    "finite_number": _not_a("a number"),
    "bool_type": _not_a("true or false"),
    "list_type": _not_a("a list"),
    "dict_type": _not_a("a mapping"),
    "model_type": _not_a("a mapping"),
    "greater_than_equal": _bound("small: at least", "ge"),
    "greater_than": _bound("small: more than", "gt"),
    "less_than_equal": _bound("large: at most", "le"),
    "string_too_short": lambda error: ("is empty", ""),
    "too_short": _too_few,
    "string_pattern_mismatch": _pattern,
    "operator_kind": _operator_kind,
    "invalid_key": lambda error: ("a key must be text", "quote it"),
    "csv_sign": lambda error: (
        f"{_shown(error['input'])} is {error['msg']}",
        'one ASCII character other than a letter, a digit or a space, such as ";", "|" or "\\t"',
    ),
    "metadata": lambda error: (
        f"{_shown(error['input'])} is {error['msg']}",
        did_you_mean(str(error["input"]), METADATA) or f"one of {', '.join(METADATA)}",
    ),
    "table": lambda error: (
        f"{_shown(error['input'])} is {error['msg']}",
        "letters, digits and _, 63 at most, such as delays, or behind the name of its schema: public.delays",
    ),
    "folder": lambda error: (f"{_shown(error['input'])} is {error['msg']}", "such as /data/delays"),
    "start": lambda error: (f"{_shown(error['input'])} is {error['msg']}", 'such as "2026-01-31T12:00:00Z"'),
}


def _number(value: Any) -> str:
    return digits(value) if isinstance(value, float) else str(value)


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    if isinstance(value, float) and "e" in text and 1e-6 <= abs(value) < 1e60:
        text = digits(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def found(value: Any) -> str:
    if value is None:
        return "nothing"
    for kind, words in ((bool, ""), (str, ""), (int, ""), (float, ""), (dict, "a mapping"), (list, "a list")):
        if isinstance(value, kind):
            return words or _shown(value)
    return type(value).__name__


# -- which part of the job file a location lies in --------------------------------------------------------------------


def _owner(loc: Sequence[int | str], root: type[JobPart]) -> type[JobPart] | None:
    """The model of the mapping at `loc` below `root`; None if no model describes it."""
    at: Any = root
    for step in loc:
        at = _step(_plain(at), step)
    at = _plain(at)
    return at if isinstance(at, type) and issubclass(at, JobPart) else None


def _step(at: Any, step: int | str) -> Any:
    if isinstance(at, type) and issubclass(at, JobPart):
        field = at.model_fields.get(str(step))
        return None if field is None else field.annotation
    if get_origin(at) in (dict, list):
        return get_args(at)[-1]
    return _FIELDS.get(str(step)) or OPERATORS.get(str(step))


_FIELDS: dict[str, type[JobPart]] = {"renamed": Renamed, "metadata": Metadata}
"""Forms of a field."""


def _plain(at: Any) -> Any:
    """The annotation without Annotated and without `| None`."""
    if get_origin(at) is Annotated:
        return _plain(get_args(at)[0])
    if get_origin(at) in (Union, UnionType):
        some = [member for member in get_args(at) if member is not NoneType]
        return _plain(some[0]) if len(some) == 1 else at
    return at
