"""The graph of a job as a picture (SVG): operators, their tasks with the copies of each, edges with rates.

A task shows the unit that it belongs to by the worker that leads it, which is marked, and those that stand by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.schemas.operator_settings import AggregateSettings
from holdfast.schemas.plans import Edge, OperatorPlan, Plan, UnitPlan
from holdfast.schemas.topics import edge as edge_of
from holdfast.services.console.markup import Node, element, plain_rate, text, tone
from holdfast.services.console.placement import HEAD, MOST_TASKS, ROW, WIDTH, Box, Line, Placement, across, down
from holdfast.services.view.costs import JobCosts
from holdfast.services.view.lines import UnitLine

LARGER = 1.25
"""Scale of the picture on a phone, as far as there is room."""


def graph(plan: Plan, units: Sequence[UnitLine] = (), costs: JobCosts | None = None) -> Node:
    """Both pictures of a job's graph; a style sheet shows one by the width of the page.

    Args:
        units, costs: without them the plan alone is drawn.
    """
    lines = {one.unit: one for one in units}
    wide, tall = across(plan), down(plan)
    return element(
        "div",
        element(
            "div",
            _drawn(plan, wide, lines, costs, 1.0),
            class_="scroll across",
            tabindex="0",
            role="region",
            aria_label="The graph of the job",
        ),
        element("div", _drawn(plan, tall, lines, costs, LARGER), class_="down"),
        class_="graph",
    )


def _drawn(plan: Plan, place: Placement, lines: Mapping[str, UnitLine], costs: JobCosts | None, scale: float) -> Node:
    title = element("title", text(f"The graph of job {plan.job}"))
    edges = "".join(_edge(plan, one, costs) for one in place.lines)
    nodes = "".join(_operator(plan, box, lines, costs) for box in place.boxes.values())
    width, height = place.width, place.height
    return element(
        "svg", title, edges, nodes, viewBox=f"0 0 {width} {height}", width=round(scale * width),
        height=round(scale * height), role="img",
    )  # fmt: skip


# -- edges ------------------------------------------------------------------------------------------------------------


def _edge(plan: Plan, line: Line, costs: JobCosts | None) -> Node:
    one = line.edge
    rate = None if costs is None else _rate_of(plan, one, costs)
    flows = "edge flows" if rate else "edge"
    said = element("title", text(f"{one.producer} to {one.consumer}, {_routing(one)}"))
    drawn = element("path", said, d=line.path, class_=flows)
    if rate is None:
        return drawn
    anchor = "start" if line.begins else "end"
    label = text(f"{plain_rate(rate)}/s")
    return drawn + element("text", label, x=f"{line.x:g}", y=f"{line.y:g}", class_="rate", text_anchor=anchor)


def _routing(one: Edge) -> str:
    return f"by key {', '.join(one.key)}" if one.routing == "keyed" else one.routing


def _rate_of(plan: Plan, one: Edge, costs: JobCosts) -> float | None:
    """Records a second that the consumer's units read; None: the edge is inside a unit, or its rate is not known."""
    if one.topic is None:
        return None
    readers = {unit.name for unit in plan.units if one.consumer in unit.operators}
    name = edge_of(one.topic)
    rates = [
        found.records_per_s
        for found in costs.edges
        if found.direction == "in" and found.edge == name and found.unit in readers
    ]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


# -- operators --------------------------------------------------------------------------------------------------------


def _operator(plan: Plan, box: Box, lines: Mapping[str, UnitLine], costs: JobCosts | None) -> Node:
    one = box.operator
    units = [unit for unit in plan.units if one.name in unit.operators]
    rows = units[:MOST_TASKS]
    states = [_state(lines.get(unit.name)) for unit in units] if lines else []
    worst = min((tone(state) for state in states), key=_ORDER.index, default="calm")
    frame = element("rect", x=box.x, y=box.y, width=WIDTH, height=box.height, rx=10, class_="frame")
    stripe = element("rect", x=box.x, y=box.y + 12, width=3, height=20, rx=1.5, class_=f"stripe {worst}")
    shown = one.name.removeprefix("sink-") if one.kind == "sink" else one.name
    name = element("text", text(_cut(shown, 21)), x=box.x + 14, y=box.y + 20, class_="name")
    kind = element("text", text(_kind(one)), x=box.x + 14, y=box.y + 35, class_="kind")
    rate = "" if costs is None else _own_rate(one, costs)
    flow = element("text", text(rate), x=box.x + WIDTH - 12, y=box.y + 35, class_="rate", text_anchor="end")
    tasks = "".join(_task(box, at, unit, lines.get(unit.name)) for at, unit in enumerate(rows))
    rest = ""
    if len(units) > len(rows):
        said = f"and {len(units) - len(rows)} more tasks"
        rest = element("text", text(said), x=box.x + 14, y=box.y + HEAD + ROW * len(rows) + 15, class_="kind")
    return element("g", frame, stripe, name, kind, flow if rate else "", tasks, rest, class_="operator")


_ORDER = ("bad", "warn", "busy", "good", "calm")


def _kind(one: OperatorPlan) -> str:
    if one.kind in ("source", "sink"):
        return f"{one.kind} · {_cut(one.folder or one.written_topic or one.source.topic or '', 16)}"
    windowed = isinstance(one.settings, AggregateSettings) and one.settings.window is not None
    return f"{one.kind} · window" if windowed else one.kind


def _own_rate(one: OperatorPlan, costs: JobCosts) -> str:
    """Rate of a source's input, or of a sink's output."""
    if one.kind not in ("source", "sink"):
        return ""
    rates = [found.records_per_s for found in costs.edges if found.edge == one.name]
    known = [rate for rate in rates if rate is not None]
    return f"{plain_rate(sum(known))}/s" if known else ""


def _task(box: Box, at: int, unit: UnitPlan, line: UnitLine | None) -> Node:
    y = box.y + HEAD + ROW * at
    number = element("text", text(f"{unit.index}"), x=box.x + 14, y=y + 15, class_="index")
    if line is None:
        return number + element("text", text(unit.name), x=box.x + 30, y=y + 15, class_="kind")
    leader = next((copy for copy in line.copies if copy.role == "primary"), None)
    others = [copy for copy in line.copies if copy is not leader]
    state = _state(line)
    said = [f"unit {line.unit}, scheme {line.scheme}"]
    said += [f"{copy.worker} {'leads' if copy is leader else 'stands by'}, {copy.state}" for copy in line.copies]
    parts = [
        element("title", text("\n".join(said))),
        element("rect", x=box.x + 6, y=y, width=WIDTH - 12, height=ROW - 2, rx=5, class_="task"),
        number,
        element("circle", cx=box.x + 32, cy=y + 10, r=4, class_=f"lead {tone(state)}"),
        element(
            "text", text(_short(leader.worker) if leader else "no worker"), x=box.x + 41, y=y + 15, class_="leader"
        ),
    ]
    if others:
        first = others[0]
        more = f" +{len(others) - 1}" if len(others) > 1 else ""
        parts.append(element("circle", cx=box.x + 108, cy=y + 10, r=3.5, class_=f"stand {tone(first.state)}"))
        parts.append(element("text", text(_short(first.worker) + more), x=box.x + 116, y=y + 15, class_="standby"))
    return element("g", *parts)


def _state(line: UnitLine | None) -> str:
    leader = None if line is None else next((copy for copy in line.copies if copy.role == "primary"), None)
    return "down" if leader is None else leader.state


def _short(worker: str) -> str:
    return _cut(worker, 10)


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
