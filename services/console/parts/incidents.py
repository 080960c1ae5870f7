"""Incidents: workers that failed together, the plan by which their units are restored, and the units that wait."""

from __future__ import annotations

from holdfast.services.console.markup import (
    Node,
    card,
    chip,
    count,
    element,
    figure,
    figures,
    link,
    muted,
    nothing,
    number,
    table,
    text,
    unknown,
)
from holdfast.services.console.parts.overview import story
from holdfast.services.console.parts.stairs import stairs
from holdfast.services.kernel.plurals import plural
from holdfast.services.view.incidents import IncidentLine, QueryPart
from holdfast.services.view.live import Picture

KINDS = frozenset({"incident", "incident-planned", "incident-over"})
"""Kinds of events about incidents."""
MOST = 50
"""Lines of the story on a page."""
OVER = "over"


def incidents(picture: Picture) -> Node:
    """The last incident of each job that runs, those under way first, and the story of all."""
    found = [one.incident for one in picture.jobs if one.incident is not None]
    shown = [incident(one, picture.time_ms) for one in sorted(found, key=lambda one: one.state == OVER)]
    if not shown:
        shown = [card("Incidents", nothing("No job that runs has had an incident: no workers have failed together."))]
    if recent := [one for one in picture.happenings if one.kind in KINDS][-MOST:]:
        shown.append(card("The story, as `holdfast events` tells it", story(recent, "No events of incidents.")))
    return element("div", *shown, class_="stack")


def incident(line: IncidentLine, now_ms: int) -> Node:
    """The card of one incident, as `explain JOB --incident` draws it.

    now_ms: time of day, milliseconds since 1970.
    """
    state = chip(line.state) + muted(f" record {line.number}")
    head = element("p", link(line.job, f"/jobs/{line.job}", "link strong"), text(f": {_failed(line)}"), class_="said")
    climbs = "" if line.stairs is None else stairs(line.stairs, now_ms)
    if line.state == OVER:
        return card(f"Incident of {line.job}", head, climbs, aside=state)
    return card(
        f"Incident of {line.job}",
        head,
        climbs,
        _figures(line),
        *(element("p", text(said), class_="said") for said in _lines(line)),
        _queries(line),
        aside=state,
        class_="wide",
    )


def _failed(line: IncidentLine) -> str:
    """The workers that failed, and the number of their units."""
    return f"{', '.join(line.workers)} failed with {plural(len(line.units), 'unit')}"


def _figures(line: IncidentLine) -> Node:
    waiting = sum(one.state == "waiting" for one in line.queries)
    runs = sum(one.state == "runs" for one in line.queries)
    slots = text("no limit") if line.beyond else count(line.slots)
    return figures(
        figure("Units with a slot", number(str(len(line.order)), f" of {len(line.units)}")),
        figure("Free slots", slots, muted("when the plan was made")),
        figure("Queries that run", number(str(runs), f" of {len(line.queries)}")),
        figure("Queries that wait", count(waiting), muted("for slots"), tone="warn" if waiting else ""),
        figure(
            "Restored",
            text("all at once" if line.blocking else "as slots are free"),
            muted("from the newest global checkpoint" if line.line else "each from its own newest checkpoint"),
        ),
    )


def _lines(line: IncidentLine) -> list[str]:
    lines = [f"Order of restoring: {' '.join(line.order) or 'nothing fits'}"]
    if line.above:
        lines.append(f"What sends to them goes back before them: {' '.join(line.above)}")
    return lines + [f"Retention: {one}" for one in line.retention]


def _queries(line: IncidentLine) -> Node:
    heads = ("query", "state", "priority", "density", "is restored", "waits for a slot")
    return table(
        heads,
        [_query(one) for one in line.queries],
        empty="The job has no query.",
        label=f"Queries in the incident of {line.job}",
        numbers="llnnww",
    )


def _query(one: QueryPart) -> list[Node]:
    density = unknown() if one.density is None else text(f"{one.density:.4g}")
    return [
        element("strong", text(one.query)),
        chip(one.state),
        count(one.priority),
        element("span", density, title="priority for each slot, as the plan had it"),
        text(" ".join(one.restored)),
        text(" ".join(one.waiting)),
    ]
