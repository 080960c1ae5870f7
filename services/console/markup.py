"""Markup: HTML of texts from records. All shown texts pass `text` or `element`, which escape them."""

from __future__ import annotations

import html
from collections.abc import Iterable
from datetime import UTC, datetime

from holdfast.services.kernel.visible import visible

Node = str
"""HTML that is safe to show: made by the functions here."""

DASH = "\u2013"
"""Sign in place of an unknown value."""
TONES = {
    "running": "good", "live": "good", "synced": "good", "available": "good", "ended": "calm", "accepted": "busy",
    "starting": "busy", "restoring": "busy", "draining": "busy", "cancelling": "busy", "pausing": "busy",
    "catching up": "busy", "following": "good", "leaving": "busy", "deploying": "busy", "waiting": "warn",
    "paused": "warn", "stopped": "warn", "silent": "warn", "unplaced": "warn", "stuck": "bad", "failed": "bad",
    "faulted": "bad", "quarantined": "bad", "down": "bad", "exited": "bad", "unavailable": "bad", "rejected": "bad",
    "kept": "good", "broken": "bad", "activating": "busy", "runs": "good", "detected": "bad", "planned": "warn",
    "exceeded": "bad", "tentative": "warn",
}  # fmt: skip
"""The tone of a state: good, calm, busy, warn or bad; other states are calm."""


def text(value: object) -> Node:
    """Escaped, with control characters as escapes."""
    return html.escape(visible(str(value)))


def coded(value: str) -> Node:
    """Text in which each command between two backticks is marked as code."""
    return "".join(element("code", text(one)) if at % 2 else text(one) for at, one in enumerate(value.split("`")))


def element(tag: str, *children: Node, **attributes: object) -> Node:
    """Attributes are escaped; `_` in their names becomes `-`, a last `_` falls away; None leaves one out."""
    shown = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{text(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{shown}>{''.join(children)}</{tag}>"


def unknown() -> Node:
    return muted(DASH)


def link(label: str, path: str, class_: str = "link") -> Node:
    return element("a", text(label), href=path, class_=class_)


def chip(state: str, title: str = "") -> Node:
    """A state as text with a colour; the colour only repeats the word."""
    dot = element("span", class_="dot", aria_hidden="true")
    return element("span", dot, text(state), class_=f"chip {tone(state)}", title=title or None)


def tone(state: str) -> str:
    return TONES.get(state, "calm")


def moment(time_ms: int) -> Node:
    """A time of day as the reader's browser shows it; the exact one on hover."""
    if not time_ms:
        return muted("not known")
    exact = datetime.fromtimestamp(time_ms / 1000, UTC)
    iso = exact.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return element("time", text(exact.strftime("%H:%M:%S")), datetime=iso, title=iso)


def muted(label: str) -> Node:
    return element("span", text(label), class_="muted")


def table(heads: Iterable[str], rows: Iterable[Iterable[Node]], *, empty: str, label: str, numbers: str = "") -> Node:
    """A table that scrolls by itself where it is too wide.

    Args:
        numbers: a letter for each column: `n` is set right, `w` may wrap, any other is left.
    """
    columns, kinds = list(heads), {"n": "number", "w": "wrap"}
    classes = [kinds.get(numbers[at : at + 1]) for at in range(len(columns))]
    head = "".join(
        element("th", text(name), scope="col", class_=kind) for name, kind in zip(columns, classes, strict=True)
    )
    body = "".join(
        element("tr", *(element("td", cell, class_=kind) for cell, kind in zip(row, classes, strict=True)))
        for row in rows
    )
    if not body:
        return nothing(empty)
    inner = element("table", element("thead", element("tr", head)), element("tbody", body))
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=label)


def nothing(said: str, command: str = "") -> Node:
    """An empty state, and the next step for the person."""
    hint = element("code", text(command)) if command else ""
    return element("div", element("p", text(said)), hint, class_="empty")


def card(title: str, *children: Node, aside: Node = "", class_: str = "") -> Node:
    head = element("header", element("h2", coded(title)), element("div", aside, class_="aside") if aside else "")
    return element("section", head, *children, class_=f"card {class_}".strip(), aria_label=title.replace("`", ""))


def figure(label: str, value: Node, note: Node = "", tone: str = "") -> Node:
    """A number with its unit, under its name."""
    return element(
        "div",
        element("dt", text(label)),
        element("dd", value, class_=tone or None),
        element("dd", note, class_="note") if note else "",
        class_="figure",
    )


def figures(*parts: Node) -> Node:
    return element("dl", *parts, class_="figures")


# -- numbers with their units -----------------------------------------------------------------------------------------


def count(value: float | None) -> Node:
    return unknown() if value is None else text(f"{value:,.0f}")


def per_s(value: float | None) -> Node:
    """Records a second."""
    return unknown() if value is None else number(plain_rate(value), "/s")


def plain_rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def number(value: str, unit: str) -> Node:
    return text(value) + element("span", text(unit), class_="unit")


def milliseconds(value: float | None) -> Node:
    """Milliseconds as text; long times in seconds."""
    if value is None:
        return unknown()
    return number(f"{value:,.0f}", " ms") if value < 10_000 else seconds(value / 1000)


def seconds(value: float) -> Node:
    if value < 120:
        return number(f"{value:.1f}", " s")
    return number(f"{value / 60:,.0f}", " min") if value < 7200 else number(f"{value / 3600:,.1f}", " h")


def size(value: float | None) -> Node:
    if value is None:
        return unknown()
    for unit in (" B", " KiB", " MiB"):
        if value < 1024:
            return number(f"{value:,.0f}" if unit == " B" else f"{value:,.1f}", unit)
        value /= 1024
    return number(f"{value:,.1f}", " GiB")
