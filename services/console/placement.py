"""The places of boxes and lines of a job's graph, across a screen or down a phone. Pure geometry, in pixels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.schemas.plans import Edge, OperatorPlan, Plan
from holdfast.services.console.layers import layers

WIDTH, HEAD, ROW, FOOT = 180, 44, 22, 8
GAP_X, GAP_Y, MARGIN = 66, 22, 8
GAP_DOWN = 34
"""Between two boxes of which one stands below the other, with a line and its rate between them."""
LANE, MOST_LANES = 15, 5
"""Width of a lane beside the boxes, in which a line passes others by; further lines share the last."""
RATE = 52
"""Width of a rate beside a box."""
ENTRY = 16
"""Between two lines that reach the side of one box."""
MOST_TASKS = 8
"""Tasks of an operator that have a row of their own; of the others the states are counted."""


@dataclass(frozen=True, slots=True)
class Box:
    """Place of one operator in the drawing, in pixels."""

    operator: OperatorPlan
    x: int
    y: int
    height: int

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Line:
    """Line of an edge.

    path: path of SVG.
    x, y: place of its rate's text, which ends there, or begins there with `begins`.
    """

    edge: Edge
    path: str
    x: float
    y: float
    begins: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    boxes: dict[str, Box]
    lines: list[Line]
    width: int
    height: int


def across(plan: Plan) -> Placement:
    """Places operators from left to right, each to the right of all operators that feed it."""
    operators, heights, columns = _sorted(plan)
    totals = [sum(heights[name] for name in column) + GAP_Y * (len(column) - 1) for column in columns]
    tallest = max(totals, default=0)
    boxes = {}
    for index, column in enumerate(columns):
        y = MARGIN + (tallest - totals[index]) // 2
        for name in column:
            boxes[name] = Box(operators[name], MARGIN + index * (WIDTH + GAP_X), y, heights[name])
            y += heights[name] + GAP_Y
    width = 2 * MARGIN + len(columns) * WIDTH + max(len(columns) - 1, 0) * GAP_X
    return Placement(boxes, [_across(one, boxes) for one in plan.edges], width, tallest + 2 * MARGIN)


def _across(one: Edge, boxes: dict[str, Box]) -> Line:
    start, end = boxes[one.producer], boxes[one.consumer]
    x1, y1, x2, y2 = start.x + WIDTH, start.middle, end.x, end.middle
    bend = max(36.0, (x2 - x1) / 2)
    path = f"M{x1},{y1:g} C{x1 + bend:g},{y1:g} {x2 - bend:g},{y2:g} {x2},{y2:g}"
    return Line(one, path, x2 - 10, y2 - 7)


def down(plan: Plan) -> Placement:
    """Places operators from top to bottom. A line to the next box is straight; other lines run in lanes beside the
    boxes.
    """
    operators, heights, columns = _sorted(plan)
    names = [name for column in columns for name in column]
    boxes, y = dict[str, Box](), MARGIN
    for name in names:
        boxes[name] = Box(operators[name], MARGIN, y, heights[name])
        y += heights[name] + GAP_DOWN
    places = {name: at for at, name in enumerate(names)}
    passing = [one for one in plan.edges if places[one.consumer] - places[one.producer] > 1]
    lanes = _lanes((places[one.producer], places[one.consumer]) for one in passing)
    lines, entries = list[Line](), dict[str, int]()
    for one in plan.edges:
        start, end = boxes[one.producer], boxes[one.consumer]
        if one not in passing:
            x = MARGIN + WIDTH // 2
            lines.append(Line(one, f"M{x},{start.y + start.height} L{x},{end.y}", x + 8, end.y - 10, begins=True))
            continue
        entry = entries[one.consumer] = entries.get(one.consumer, -1) + 1
        y2 = end.y + ENTRY + ENTRY * entry % (end.height - ENTRY)
        lines.append(_beside(one, start.y + start.height - ENTRY, y2, lanes[passing.index(one)]))
    beside = max(LANE * (max(lanes) + 1), RATE) if lanes else 0
    return Placement(boxes, lines, 2 * MARGIN + WIDTH + beside, max(y - GAP_DOWN, 0) + MARGIN)


def _beside(one: Edge, y1: int, y2: int, lane: int) -> Line:
    side, x = MARGIN + WIDTH, MARGIN + WIDTH + LANE * (lane + 1)
    path = f"M{side},{y1} Q{x},{y1} {x},{y1 + LANE} L{x},{y2 - LANE} Q{x},{y2} {side},{y2}"
    return Line(one, path, side + 5, y2 - 5, begins=True)


def _lanes(spans: Iterable[tuple[int, int]]) -> list[int]:
    """A lane for each line, from 0; lines beside the same box have different lanes."""
    free: list[int] = []
    found = []
    for start, end in spans:
        lane = next((at for at, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [end]
        found.append(min(lane, MOST_LANES - 1))
    return found


def _sorted(plan: Plan) -> tuple[dict[str, OperatorPlan], dict[str, int], list[list[str]]]:
    """Operators by name, heights of their boxes, and columns from left to right."""
    operators = {one.name: one for one in plan.operators}
    heights = {name: HEAD + ROW * min(one.parallelism, MOST_TASKS + 1) + FOOT for name, one in operators.items()}
    return operators, heights, layers(list(operators), [(one.producer, one.consumer) for one in plan.edges])
