"""Reads lengths of time in a query: INTERVAL '1 minute', INTERVAL '1' MINUTE, or the text '1 minute'."""

from __future__ import annotations

import re
from typing import NamedTuple

from sqlglot import exp

_PART = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([A-Za-zµ]+)\s*")
_MONTHS = {"month": 1, "mon": 1, "quarter": 3, "year": 12, "y": 12}
_MICROSECONDS = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "sec": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
    "w": 604_800_000_000,
}


class Length(NamedTuple):
    """A length of time as months, which have no fixed number of days, and microseconds."""

    months: int
    us: int

    @property
    def seconds(self) -> float | int:
        return self.us // 1_000_000 if self.us % 1_000_000 == 0 else self.us / 1_000_000


def length(node: exp.Expr) -> Length | None:
    """The length of time that an expression means; None if it is not a length of time."""
    if isinstance(node, exp.Paren):
        return length(node.this)
    if isinstance(node, exp.Neg):
        inner = length(node.this)
        return None if inner is None else Length(-inner.months, -inner.us)
    if isinstance(node, exp.Interval):
        unit = node.args.get("unit")
        return None if node.this is None else _read(f"{node.this.name} {'' if unit is None else unit.name}")
    return _read(node.name) if isinstance(node, exp.Literal) and node.is_string else None


def _read(text: str) -> Length | None:
    months, us, place = 0, 0.0, 0
    while place < len(text) and (part := _PART.match(text, place)):
        number, unit = float(part[1]), part[2].lower()
        unit = unit if unit in _MICROSECONDS or unit in _MONTHS else unit.removesuffix("s")
        if unit in _MONTHS and number.is_integer():
            months += int(number) * _MONTHS[unit]
        elif unit in _MICROSECONDS:
            us += number * _MICROSECONDS[unit]
        else:
            return None
        place = part.end()
    return Length(months, round(us)) if place and not text[place:].strip() else None
