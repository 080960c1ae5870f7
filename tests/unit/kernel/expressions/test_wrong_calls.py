"""A wrong call of any function, and a wrong operand of any operator, is answered by what was written alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.functions.catalogue import BY_NAME, OF_ONE_ROW
from holdfast.services.kernel.functions.function import Function
from tests.support.mistakes import mistake

SCHEMA = schema(
    {
        "v": "int", "w": "float?", "s": "string", "t": "timestamp", "b": "bool", "tags": "list<string>",
        "p": "struct<a: int>", "m": "map<string, int>",
    }
)  # fmt: skip
RIGHT = {
    "text": "s", "number": "v", "int": "v", "float": "w", "bool": "b", "list": "tags", "time": "t", "timestamp": "t",
    "any": "v", "written": "'a'", "digit": "1", "map": "m", "key": "s",
}  # fmt: skip
WRONG = {"text": "v", "key": "v", "any": "p"}
"""Arguments by the kind of a parameter; a wrong one is a text where none is given here."""
IN_HINTS = {
    "CAST", "EXTRACT", "EPOCH", "TO_TIMESTAMP", "DATE", "STRPTIME", "REGEXP_LIKE", "STRPOS", "SUBSTR", "ARRAY_LENGTH",
    "ARRAY_TO_STRING", "MAP_GET", "MAP_KEYS", "MAP_VALUES", "MAP_ENTRIES",
}  # fmt: skip
"""Functions that answers tell people to use."""
OF_LIBRARIES = (
    "sqlglot", "polars", "col(", "sql_to_float", "dyn ", "literal", "assertion", "series", "element", "expects", "i64",
    "Span(", "dtype", "Datetime(", "could not", "currently supported", "!=", "==",
)  # fmt: skip


def wrong_calls(function: Function, name: str) -> Iterator[str]:
    """Too few arguments, too many, and one of a wrong type in each place."""
    right = [RIGHT[one.kind] for one in function.parameters]
    yield f"{name}({', '.join([*right, 's', 'v', 'b', 'v', 's', 'b', 'v'])})"
    if right and not function.parameters[-1].repeated:
        yield f"{name}({', '.join(right[:-1])})"
    for place, one in enumerate(function.parameters):
        given = [*right[:place], WRONG.get(one.kind, "s"), *right[place + 1 :]]
        yield f"{name}({', '.join(given)})"


def foreign(said: str, written: str) -> list[str]:
    """Names of functions in an answer that nobody wrote, and words of libraries."""
    called = {one.upper() for one in re.findall(r"\b([A-Z][A-Z0-9_]{2,})\b", said)}
    ours = called & set(BY_NAME) - IN_HINTS - {one.upper() for one in re.findall(r"\w+", written)}
    return [*sorted(ours), *(word for word in OF_LIBRARIES if word in said and word not in written)]


@pytest.mark.parametrize("function", OF_ONE_ROW, ids=lambda function: function.name)
def test_a_wrong_call_is_answered_under_the_name_that_was_written(function: Function) -> None:
    said = {text: mistake(text, SCHEMA) for name in function.names for text in wrong_calls(function, name)}
    refused = {text: one for text, one in said.items() if one}
    assert refused or all(one.kind == "any" for one in function.parameters)
    for text, answered in refused.items():
        assert text.partition("(")[0] in answered, (text, answered)
        assert not foreign(answered, text), (text, answered)


OPERATORS = (
    "+", "-", "*", "/", "//", "%", "||", "=", "<>", "<", "<=", ">", ">=", "AND", "OR", "&", "|", "LIKE", "ILIKE", "~",
    "!~", "~*", "IS DISTINCT FROM", "<=>", "XOR", "RLIKE", "REGEXP", "AND NOT", "IN (1) =", "BETWEEN 1 AND",
)  # fmt: skip


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_wrong_operand_is_answered_without_names_of_libraries(operator: str) -> None:
    for left, right in itertools.permutations(("v", "s", "t", "p"), 2):
        text = f"{left} {operator} {right}"
        said = mistake(text, SCHEMA)
        assert not foreign(said, text), (text, said)
