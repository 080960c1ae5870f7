"""The list of all functions, and the search in it."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.services.kernel.functions.aggregates import AGGREGATES
from holdfast.services.kernel.functions.function import Function
from holdfast.services.kernel.functions.numbers import NUMBERS
from holdfast.services.kernel.functions.texts import TEXTS
from holdfast.services.kernel.functions.times import TIMES
from holdfast.services.kernel.functions.values import VALUES

GROUPS: Mapping[str, tuple[Function, ...]] = {
    "Aggregates": AGGREGATES,
    "Numbers": NUMBERS,
    "Texts": TEXTS,
    "Times": TIMES,
    "Values, lists, structs and maps": VALUES,
}
OF_ONE_ROW = (*NUMBERS, *TEXTS, *TIMES, *VALUES)
BY_NAME: Mapping[str, Function] = {name: one for one in OF_ONE_ROW for name in one.names}
"""Functions of one row, by each of their names, in capital letters."""
AGGREGATE_BY_NAME: Mapping[str, Function] = {name: one for one in AGGREGATES for name in one.names}
"""Aggregates, by each of their names, in small letters."""


def named(name: str) -> list[Function]:
    """Functions of this name, in any letter case."""
    word = name.strip().removesuffix("()").lower()
    return [one for group in GROUPS.values() for one in group if word in (other.lower() for other in one.names)]


def searched(text: str) -> list[Function]:
    """The functions whose names, signature or sentence contain each word of a text."""
    words = text.lower().split()
    return [one for group in GROUPS.values() for one in group if all(word in _said(one) for word in words)]


def _said(function: Function) -> str:
    return " ".join((*function.names, function.signature, function.sentence)).lower()
