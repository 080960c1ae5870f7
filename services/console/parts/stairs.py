"""Stairs of an incident as a picture: queries that are available, from the failure on."""

from __future__ import annotations

from holdfast.services.console.markup import Node, element, milliseconds, text
from holdfast.services.kernel.plurals import plural
from holdfast.services.view.stairs import Stairs

WIDTH, HEIGHT = 1000, 100
"""Size of the drawing, which is stretched to its place; texts are outside it."""
LEAST_MS = 1_000


def stairs(found: Stairs, now_ms: int) -> Node:
    """The drawing of an incident's stairs.

    now_ms: time of day; the last step lasts until then while the incident is under way.
    """
    last = found.steps[-1]
    lasts_ms = max(last.after_ms, LEAST_MS if found.over else max(LEAST_MS, now_ms - found.began_ms))
    line = _line(found, lasts_ms)
    words = ", ".join(f"{one.available} after {one.after_ms / 1000:.1f} s" for one in found.steps)
    back = f"{last.available} of {plural(found.queries, 'query', 'queries')} available"
    since = element("span", milliseconds(last.after_ms), text(" after the failure"))
    drawn = element(
        "svg",
        element("title", text(f"available queries: {words}")),
        element("polygon", points=f"{line} {WIDTH},{HEIGHT} 0,{HEIGHT}", class_="below"),
        element("polyline", points=line, class_="steps"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
    )
    ends = element("div", element("span", text("0")), element("span", milliseconds(lasts_ms)), class_="ends")
    said = element("p", element("strong", text(back)), text(", since "), since, class_="said")
    return element("div", said, element("div", drawn, ends, class_="climb"), class_="stairs")


def _line(found: Stairs, lasts_ms: int) -> str:
    """Corners of the line, each step at its time."""
    points, height = list[str](), float(HEIGHT)
    for one in found.steps:
        x = WIDTH * one.after_ms / lasts_ms
        former, height = height, HEIGHT - (HEIGHT - 4) * one.available / max(found.queries, 1)
        points += [f"{x:.1f},{former:.1f}", f"{x:.1f},{height:.1f}"]
    return " ".join([*points[1:], f"{WIDTH},{height:.1f}"])
