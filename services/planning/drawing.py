"""Draws a job as an SVG image: sources on the left, queries on the right, an arrow for each input.

Source: JOBS "Jobs in Python".
"""

from __future__ import annotations

from html import escape

from holdfast.schemas.jobs import JobSpec
from holdfast.services.planning import side_outputs
from holdfast.services.planning.graph import Graph, sink_name

_WIDTH, _HEIGHT, _GAP, _ROW, _MARGIN = 170, 40, 60, 58, 8
_SHOWN = 24
_COLOURS = {"source": "#dbeafe", "query": "#dcfce7"}
_OPERATOR = "#f3f4f6"
_STYLE = "font-family: system-ui, sans-serif; font-size: 12px"

Place = tuple[int, int]
"""Left and upper edge of a box, in pixels."""


def svg(spec: JobSpec) -> str:
    """The text of an SVG image of the job. An operator on a cycle is left out; no plan has a cycle."""
    spec = side_outputs.whole(spec).spec
    graph = Graph.of(spec)
    columns: dict[str, int] = {}
    for name in graph.order:
        columns[name] = max((columns[slot.producer] + 1 for slot in graph.slots[name]), default=0)
    places = _places(columns)
    width = (max(columns.values()) + 1) * (_WIDTH + _GAP) - _GAP + 2 * _MARGIN
    height = max(top for _, top in places.values()) + _HEIGHT + _MARGIN
    boxes = [_box(spec, name, place) for name, place in places.items()]
    arrows = [_arrow(places[slot.producer], places[name]) for name in places for slot in graph.slots[name]]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" style="{_STYLE}">'
    return "".join([head, f"<title>{escape(spec.name)}</title>", *arrows, *boxes, "</svg>"])


def _places(columns: dict[str, int]) -> dict[str, Place]:
    """The place of each box. The column is the length of the longest path from a source; boxes of one column keep the
    order of the job."""
    filled: dict[int, int] = {}
    places = {}
    for name, column in columns.items():
        row = filled[column] = filled.get(column, -1) + 1
        places[name] = (_MARGIN + column * (_WIDTH + _GAP), _MARGIN + row * _ROW)
    return places


def _box(spec: JobSpec, name: str, place: Place) -> str:
    (left, top), (kind, title, about) = place, _said(spec, name)
    middle = left + _WIDTH // 2
    return (
        f'<rect x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" '
        f'fill="{_COLOURS.get(kind, _OPERATOR)}" stroke="#6b7280"/>'
        f'<text x="{middle}" y="{top + 17}" text-anchor="middle" font-weight="bold">{_short(title)}</text>'
        f'<text x="{middle}" y="{top + 32}" text-anchor="middle" fill="#4b5563">{_short(about)}</text>'
    )


def _said(spec: JobSpec, name: str) -> tuple[str, str, str]:
    """The kind of a box, and its two lines of text."""
    if name in spec.sources:
        source = spec.sources[name]
        return "source", name, f"{'table' if source.table else 'source'} {source.topic or source.path}"
    if name in spec.operators:
        return "operator", name, spec.operators[name].kind
    query = next(one for one in spec.queries if sink_name(one) == name)
    sink = spec.queries[query].sink
    return "query", query, "query" if sink is None else f"query to {', '.join(sink.places)}"


def _short(text: str) -> str:
    return escape(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


def _arrow(start: Place, end: Place) -> str:
    x, y = start[0] + _WIDTH, start[1] + _HEIGHT // 2
    to_x, to_y = end[0], end[1] + _HEIGHT // 2
    bend = (x + to_x) // 2
    line = f'<path d="M{x} {y} C{bend} {y} {bend} {to_y} {to_x - 6} {to_y}" fill="none" stroke="#6b7280"/>'
    return f'{line}<path d="M{to_x - 7} {to_y - 4} L{to_x} {to_y} L{to_x - 7} {to_y + 4} Z" fill="#6b7280"/>'
