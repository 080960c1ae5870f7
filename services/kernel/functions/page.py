"""The page of all functions, docs/functions.md: `holdfast functions --markdown` writes it, a test compares it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from holdfast.services.kernel.functions.aggregates import EXAMPLE_ROWS
from holdfast.services.kernel.functions.catalogue import GROUPS
from holdfast.services.kernel.functions.function import Function

_HEAD = """# Functions

Made by `holdfast functions --markdown` of the list of functions
([catalogue.py](../services/kernel/functions/catalogue.py)); a test runs each example, and another one holds each
function of one row against DuckDB ([jobs.md](jobs.md#values-of-expressions) says where the values differ). A parameter
in single quotes is a text that is written out. `time` is a timestamp or a date, `number` an int, a float or a decimal.
"""


def markdown() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    for title, functions in GROUPS.items():
        yield f"## {title}\n"
        if title == "Aggregates":
            columns = ", ".join(f"`{name}` is {_json(values)}" for name, values in EXAMPLE_ROWS.items())
            yield f"The examples are over four rows, in the order of their event times: {columns}.\n"
        yield "| function | gives | example |"
        yield "|---|---|---|"
        for one in functions:
            also = f" Also: {', '.join(one.also)}." if one.also else ""
            yield f"| `{_cell(one.signature)}` | {_cell(one.sentence + also)} | `{_cell(example(one))}` |"
        yield ""


def example(function: Function) -> str:
    """The example, and its value."""
    return f"{function.example} = {_json(function.value)}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
