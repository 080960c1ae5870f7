"""The time line of takeovers: phases as bars to scale, beside what was predicted and promised; the story of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from holdfast.services.console.markup import DASH, Node, card, chip, element, milliseconds, moment, muted, nothing, text
from holdfast.services.console.parts.overview import story
from holdfast.services.kernel.plurals import plural
from holdfast.services.recovery.core.unit.signs import Sign
from holdfast.services.view.happenings import Happening
from holdfast.services.view.takeovers import Takeover

TOGETHER_MS = 5_000
"""Takeovers no further apart belong to one failure."""
BEFORE_MS, AFTER_MS = 1_000, 8_000
"""Time before and after a failure of which the story is shown with it."""
_SILENT = (Sign.PRIMARY_SILENT.value, Sign.PRIMARY_GIVEN_UP.value)
_STEPS = (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10)
FAR_OFF = 2.0
MOST = 20
"""Failures on a page."""
PHASES = (
    ("detection", "Detection", "from the last sign of life to the decision"),
    ("activation", "Activation", "until the standby works on its state"),
    ("catching-up", "Catching up", "until all that was in flight is out again"),
)


def takeovers(found: Sequence[Takeover], happenings: Sequence[Happening], *, drills: str = "") -> Node:
    """found: the newest first. drills: what makes a takeover, for the empty state."""
    if not found:
        return card("Takeovers", nothing("No takeover yet. To see one:", drills or "holdfast kill worker-1"))
    together = list(_together(found))[:MOST]
    cards = [_failure(group, happenings) for group in together]
    return element("div", _legend(), *cards, class_="stack")


def _together(found: Sequence[Takeover]) -> Iterator[list[Takeover]]:
    group: list[Takeover] = []
    for one in found:
        if group and group[-1].time_ms - one.time_ms > TOGETHER_MS:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _longest(one: Takeover) -> float:
    """Time that is drawn to scale; a prediction that is far off must not make all else too small to see."""
    longest = max(one.total_ms or 0.0, one.promise_ms, one.silent_ms or 0.0, one.detection_ms, 1.0)
    return max(longest, min(one.predicted_ms.get("total", 0.0), FAR_OFF * longest))


def _legend() -> Node:
    keys = [
        element("li", element("span", class_=f"key {name}", aria_hidden="true"), text(label), title=title)
        for name, label, title in PHASES
    ]
    keys.append(element("li", element("span", class_="key first", aria_hidden="true"), text("First output")))
    keys.append(element("li", element("span", class_="key predicted", aria_hidden="true"), text("Predicted")))
    keys.append(element("li", element("span", class_="key promise", aria_hidden="true"), text("Promised")))
    return element("ul", *keys, class_="legend", aria_label="What the bars mean")


def _failure(group: Sequence[Takeover], happenings: Sequence[Happening]) -> Node:
    scale = _round(max(map(_longest, group)))
    first, last = min(one.time_ms for one in group), max(one.time_ms for one in group)
    of_job, units = {one.job for one in group}, len({(one.job, one.unit) for one in group})
    workers = sorted({one.failed for one in group if one.failed})
    drilled = all(one.drill for one in group)
    silent = all(one.sign in _SILENT for one in group)
    what = "Drill" if drilled else f"{', '.join(workers) or 'A worker'} {_verb(len(workers), silent)}"
    silences = [one.silent_ms for one in group if one.silent_ms is not None]
    worst = element("span", muted("longest silence "), milliseconds(max(silences))) if silences else muted("under way")
    rows = [_row(one, scale) for one in sorted(group, key=lambda one: (one.job, one.unit, one.epoch))]
    told = [one for one in happenings if first - BEFORE_MS <= one.time_ms <= last + AFTER_MS]
    inner = element(
        "details",
        element("summary", text("The story, as `holdfast events` tells it")),
        story(told, "Its events are gone."),
    )
    head = element(
        "header",
        element("h2", text(what)),
        element(
            "p",
            moment(first),
            muted(f" · {plural(units, 'unit')} of {', '.join(sorted(of_job))}"),
        ),
        element("div", worst, class_="aside"),
    )
    return element(
        "section", head, element("div", *rows, _axis(scale), class_="bars"), inner, class_="card", aria_label=what
    )


def _verb(workers: int, silent: bool) -> str:
    if silent:
        return "were silent" if workers > 1 else "was silent"
    return "failed"


def _round(longest_ms: float) -> float:
    """The end of the scale: a number a little above, whose quarters are plain."""
    power = 10.0 ** math.floor(math.log10(longest_ms))
    return next(step * power for step in _STEPS if step * power >= longest_ms * 0.999)


def _axis(scale: float) -> Node:
    marks = [
        element(
            "span", milliseconds(scale * part / 4), style=f"left:{25 * part}%", class_="last" if part == 4 else None
        )
        for part in range(5)
    ]
    return element("div", element("div", *marks, class_="axis", aria_hidden="true"), class_="bar-row scale")


def _row(one: Takeover, scale: float) -> Node:
    title = f"{one.sign}: {one.move}"
    name = element("div", element("strong", text(one.unit)), muted(f" {one.scheme}"), class_="who", title=title)
    moved = element("div", text(f"{one.failed or DASH} → {one.leads or 'no worker'}"), class_="moved")
    total = milliseconds(one.total_ms) if one.total_ms is not None else chip("under way")
    end = element("div", element("span", total), _verdict(one), class_="total")
    return element("div", name, moved, _bar(one, scale), end, class_="bar-row")


def _bar(one: Takeover, scale: float) -> Node:
    parts, at = [], 0.0
    for name, length in zip((phase[0] for phase in PHASES), _lengths(one), strict=True):
        said = f"{name} {length:,.0f} ms"
        style = f"left:{100 * at / scale:.2f}%;width:{100 * length / scale:.2f}%"
        parts.append(element("span", class_=f"phase {name}", style=style, title=said))
        at += length
    if one.silent_ms is not None:
        parts.append(_mark("first", one.silent_ms, scale, f"first output after {one.silent_ms:,.0f} ms"))
    if predicted := one.predicted_ms.get("total"):
        parts.append(_mark("predicted", predicted, scale, f"predicted {predicted:,.0f} ms"))
    if one.promise_ms:
        parts.append(_mark("promise", one.promise_ms, scale, f"promised {one.promise_ms:,.0f} ms"))
    words = ", ".join(f"{label.lower()} {ms:,.0f} ms" for (_, label, _), ms in zip(PHASES, _lengths(one), strict=True))
    return element("div", *parts, class_="bar", role="img", aria_label=words, tabindex="0")


def _lengths(one: Takeover) -> tuple[float, float, float]:
    activation = one.activation_ms or 0.0
    return one.detection_ms, activation, max(0.0, (one.recovered_ms or activation) - activation)


def _mark(name: str, at_ms: float, scale: float, title: str) -> Node:
    if at_ms > scale:
        return element("span", "→", class_=f"beyond {name}", title=f"{title}, beyond the scale")
    return element("span", class_=f"mark {name}", style=f"left:{100 * at_ms / scale:.2f}%", title=title)


def _verdict(one: Takeover) -> Node:
    if one.kept is None:
        return ""
    return chip("kept", "the promise was kept") if one.kept else chip("broken", "the promise was broken")
