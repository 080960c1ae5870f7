"""The columns of a join: the equal columns of both sides, and the output names of the right side's columns.

An item of `on` is a column of both sides, or `user = id` with the left column first. Prefixes, as in `o.user = u.id`,
make no difference.
Source: JOBS "join".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from holdfast.schemas.operator_settings import AsOfSidesSettings, JoinSidesSettings
from holdfast.services.kernel.codecs.fields import DELETED, dtype, optional, schema
from holdfast.services.kernel.operators.kind import Fields, Problems
from holdfast.services.kernel.suggestions import suggest

_CONDITION = re.compile(r"\s*(?:\w+\.)?(\w+)\s*==?\s*(?:\w+\.)?(\w+)\s*")


class Pair(NamedTuple):
    """Columns that are equal."""

    left: str
    right: str


def pairs(on: Sequence[str]) -> list[Pair]:
    """The columns of each item; an item without a condition is a column of both sides."""
    found = [_CONDITION.fullmatch(item) for item in on]
    return [Pair(match[1], match[2]) if match else Pair(item, item) for item, match in zip(on, found, strict=True)]


def right_names(on: Sequence[Pair], left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, str]:
    """The output names of the right columns outside the key; a name that clashes gets a suffix."""
    keys = {pair.right for pair in on}
    return {name: f"{name}_right" if name in left else name for name in right if name not in (*keys, DELETED)}


@dataclass(frozen=True, slots=True)
class Sides:
    """The parts common to all joins.

    names: the output name of each right column outside the key.
    """

    on: tuple[Pair, ...]
    kind: str
    left: pl.Schema
    right: pl.Schema
    names: Mapping[str, str]
    output: pl.Schema

    @classmethod
    def of(cls, join: JoinSidesSettings | AsOfSidesSettings, left: Fields, right: Fields, output: Fields) -> Sides:
        """The sides of a join.

        left, right, output: the fields without the event time.
        """
        on = tuple(pairs(join.on))
        names = right_names(on, left, right)
        return cls(on, join.kind, schema(left), schema(right), names=names, output=schema(output))

    @property
    def left_on(self) -> list[str]:
        return [pair.left for pair in self.on]

    @property
    def right_on(self) -> list[str]:
        return [pair.right for pair in self.on]


def beside(problems: Problems, on: Sequence[Pair], kind: str, left: Fields, right: Fields) -> Fields:
    """The columns of both sides. Raises JobRejected if two would have the same name."""
    names = right_names(on, left, right)
    for name, as_name in names.items():
        if as_name in left or list(names.values()).count(as_name) > 1:
            message = f"its column '{name}' would be a second '{as_name}'"
            problems.add("join.right", message, "rename it with a select")
    problems.check()
    mine = {name: _of_left(name, on, kind, left, right) for name in left if name != DELETED}
    outer = kind in ("left", "full")
    return {**mine, **{to: optional(right[name]) if outer else right[name] for name, to in names.items()}}


def _of_left(name: str, on: Sequence[Pair], kind: str, left: Fields, right: Fields) -> str:
    """The type of a left column. In a row without a left partner only the key of the left side is known."""
    if kind not in ("right", "full"):
        return left[name]
    same = any(pair.left == name and right[pair.right] == left[name] for pair in on)
    return left[name] if same else optional(left[name])


# -- what is wrong ----------------------------------------------------------------------------------------------------


def check(problems: Problems, on: Sequence[str], left: Fields, right: Fields, at: str = "join.on") -> None:
    """Notes columns that are unknown, cannot be a key, or have two types.

    at: the path of `on`.
    """
    seen = list[Pair]()
    for index, (item, pair) in enumerate(zip(on, pairs(on), strict=True)):
        path = f"{at}[{index}]"
        if not _known(problems, path, item, pair, left, right):
            continue
        if dtype(left[pair.left]) != dtype(right[pair.right]):
            named = f"'{pair.left}' is" if pair.left == pair.right else f"'{pair.left}' and '{pair.right}' are"
            message = f"{named} {left[pair.left]} on the left and {right[pair.right]} on the right"
            problems.add(path, message, "give both sources the same type")
        elif any(pair.left == other.left or pair.right == other.right for other in seen):
            problems.add(path, f"'{item}' names a column a second time", "name each column of a side once")
        seen.append(pair)


def _known(problems: Problems, path: str, item: str, pair: Pair, left: Fields, right: Fields) -> bool:
    """Notes a column that its side lacks, with the way to name it; True if both columns can be joined."""
    if pair.left != pair.right:
        return all([problems.key(path, pair.left, left), problems.key(path, pair.right, right)])
    name = pair.left
    absent = [side for side, fields in (("left", left), ("right", right)) if name not in fields]
    if not absent:
        return all([problems.key(path, name, side) for side in (left, right)])
    if re.search(r"\W", name.strip()):
        hint = "compute it by a select before the join, `... AS key`, then on: [key]"
        problems.add(path, f"'{item}' is an expression: a join is on columns", hint)
        return False
    present, lacking = (left, right) if absent == ["right"] else (right, left)
    near = suggest(name, left if absent == ["left", "right"] else lacking)
    if len(absent) == 2:
        problems.add(path, f"there is no column '{name}' on either side", near)
        return False
    other = next((one for one in lacking if lacking[one].rstrip("?") == present[name].rstrip("?")), next(iter(lacking)))
    written = f"{other} = {name}" if absent == ["left"] else f"{name} = {other}"
    hint = f'a column of another name is joined by "on": ["{written}"], the left one first'
    message = f"there is no column '{name}' on the {absent[0]}, only on the other side"
    problems.add(path, message, f"{near}; {hint}" if near.startswith("did") else hint)
    return False
