"""Derives facts about the columns of an operator: event time of the rows, bounds of a window, values that only grow.

Windows and joins of a job file always use the event time of the rows. A query names a column for it, and that column
must be the event time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.schemas.job_operators import (
    Aggregate,
    AsOfJoin,
    Dedup,
    Filter,
    Join,
    OperatorSpec,
    Select,
    Top,
    Union,
    Unnest,
    Window,
)
from holdfast.schemas.jobs import Source
from holdfast.schemas.operator_settings import JoinSettings
from holdfast.services.kernel.expressions import stars
from holdfast.services.kernel.expressions.parsing import ExpressionError, column_of, name_of, source_of
from holdfast.services.kernel.operators.join_range import range_of
from holdfast.services.kernel.operators.windows import BOUNDS, END, START

ROWTIME = "ROWTIME"
"""Name for the event time of a row whose stream has no column for it."""
_RISING = re.compile(r"\s*(?:count|max|count_distinct)\s*\(", re.IGNORECASE)
_FALLING = re.compile(r"\s*min\s*\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about the columns of a stream.

    Attributes:
        times: distance of a column's time after the event time of its row, by column, microseconds.
        window: shape of the windows; None if rows are not of windows.
        bounds: columns with a bound of the window, as window_start or window_end.
        rising: columns whose newer values are never less.
        falling: columns whose newer values are never more.
        single: True if the stream has one row, which is sent again with other values.
    """

    times: Mapping[str, int] = field(default_factory=dict)
    window: Mapping[str, Any] | None = None
    bounds: Mapping[str, str] = field(default_factory=dict)
    rising: frozenset[str] = frozenset()
    falling: frozenset[str] = frozenset()
    single: bool = False


class Lineage:
    """Facts about the sources and operators of a job, and about the operators that have replaced queries so far."""

    def __init__(self, sources: Mapping[str, Source], operators: Mapping[str, OperatorSpec]) -> None:
        self._sources = sources
        self.operators = dict(operators)
        self._found = dict[str, Facts]()

    def of(self, name: str) -> Facts:
        if name not in self._found:
            self._found[name] = Facts()  # an operator on a cycle has no facts
            self._found[name] = self._of(name)
        return self._found[name]

    def _of(self, name: str) -> Facts:
        if name in self._sources:
            source = self._sources[name]
            time = source.event_time
            return Facts({time: 0} if time in source.types else {}) if time is not None else Facts()
        operator = self.operators.get(name)
        for kind, facts in _KINDS.items():
            if isinstance(operator, kind):
                return facts(operator, [self.of(one) for one in operator.inputs])
        return Facts()


def _same(operator: Any, inputs: list[Facts]) -> Facts:
    return inputs[0]


def _top(operator: Any, inputs: list[Facts]) -> Facts:
    return replace(inputs[0], rising=frozenset(), falling=frozenset())


def _selected(operator: Select, inputs: list[Facts]) -> Facts:
    given = inputs[0]
    renamed = dict[str, list[str]]()
    whole = False
    for item in operator.select:
        try:
            star = stars.read(item)
            if star is not None:
                whole, gone = True, {*star.left_out, *star.replaced}
                for name in {*given.times, *given.bounds, *given.rising, *given.falling} - gone:
                    renamed.setdefault(name, []).append(name)
                continue
            renamed.setdefault(column_of(source_of(item)), []).append(name_of(item, [column_of(item)]))
        except ExpressionError:
            continue
    pairs = [(old, new) for old, some in renamed.items() for new in some]
    bounds = {new: given.bounds[old] for old, new in pairs if old in given.bounds}
    kept = set(bounds.values()) >= {END} or (whole and given.window is not None)
    return Facts(
        {new: given.times[old] for old, new in pairs if old in given.times},
        given.window if kept else None,
        bounds,
        frozenset(new for old, new in pairs if old in given.rising),
        falling=frozenset(new for old, new in pairs if old in given.falling),
        single=given.single,
    )


def _aggregated(operator: Aggregate, inputs: list[Facts]) -> Facts:
    rising = frozenset(name for name, text in operator.aggregate.items() if _RISING.match(text) and _is_one(text))
    falling = frozenset(name for name, text in operator.aggregate.items() if _FALLING.match(text) and _is_one(text))
    window = operator.window
    if window is None:
        return Facts(rising=rising, falling=falling, single=not operator.key and operator.emit != "final")
    if operator.emit != "final" or window.gap_s is not None:
        return Facts(times={END: 1} if operator.emit == "final" else {})
    times, own = {END: 1}, window.model_dump(mode="json")
    if (given := inputs[0].window) is not None and Window.model_validate(of_windows(given)[0]) == window:
        # rows of one time, and so bounds that are a part of the key say the time of the new row, too
        bounds = {name: bound for name, bound in inputs[0].bounds.items() if name in operator.key}
        times |= {name: inputs[0].times[name] for name in bounds if name in inputs[0].times}
        if END in bounds.values():
            return Facts(times, given, bounds)
    if window.size_s is not None and window.step_s is None:
        times[START] = 1 - round(window.size_s * 1_000_000)
    return Facts(times, own, {name: name for name in BOUNDS})


def of_windows(window: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The window that collects all rows of one window of the input. True if its bounds equal those of the input's
    window."""
    if window["calendar"] is not None:
        return {key: window[key] for key in ("calendar", "zone", "offset_s") if window[key]}, True
    size_s, step_s = window["size_s"], window["step_s"] or window["slide_s"]
    offset = {"offset_s": window["offset_s"]} if window["offset_s"] else {}
    if window["step_s"] is None and step_s == size_s:
        return {"size_s": size_s, **offset}, True
    # the ends of the windows are as far apart, and rows have the last moment before them
    behind_us = round((window["offset_s"] + size_s) * 1_000_000) % round(step_s * 1_000_000)
    return {"size_s": step_s, **({"offset_s": behind_us / 1_000_000} if behind_us else {})}, False


def _is_one(text: str) -> bool:
    """True if the text is a single call, with at most a filter behind it."""
    from holdfast.services.kernel.expressions import brackets

    blank = brackets.blanked(text)
    rest = blank[brackets.closing(blank, blank.index("(") + 1) :]
    return not rest.strip() or rest.strip().upper().startswith("FILTER")


def _joined(operator: Join, inputs: list[Facts]) -> Facts:
    """Facts of a join: those of the left side if no right row is later than its left row, otherwise none. Columns of
    the right side have other names."""
    sides = operator.join
    left = replace(inputs[0], rising=frozenset(), falling=frozenset())
    settings = operator.settings()
    assert isinstance(settings, JoinSettings)
    found = range_of(settings.join)
    if found is None:
        return left
    alone = replace(left, window=None, bounds={})
    if sides.kind in ("semi", "anti") or (found.most_us <= 0 and sides.kind in ("inner", "left")):
        return alone
    return Facts()


def _as_of(operator: AsOfJoin, inputs: list[Facts]) -> Facts:
    return replace(inputs[0], window=None, bounds={})


def _united(operator: Union, inputs: list[Facts]) -> Facts:
    first, *others = inputs
    same = {name: at for name, at in first.times.items() if all(one.times.get(name) == at for one in others)}
    return Facts(same)


_KINDS: dict[type[OperatorSpec], Callable[[Any, list[Facts]], Facts]] = {
    Filter: _same,
    Dedup: _same,
    Unnest: _same,
    Top: _top,
    Select: _selected,
    Aggregate: _aggregated,
    Join: _joined,
    AsOfJoin: _as_of,
    Union: _united,
}
"""Functions that derive the facts of an operator from the facts of its inputs."""
