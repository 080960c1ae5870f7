"""The time line of takeovers: phases as bars to scale, with promise and prediction; the story of each takeover."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from holdfast.services.console.markup import (
    DASH,
    Node,
    card,
    chip,
    coded,
    element,
    milliseconds,
    moment,
    muted,
    nothing,
    table,
    text,
)
from holdfast.services.console.parts.overview import story
from holdfast.services.kernel.plurals import plural
from holdfast.services.recovery.core.unit.table.signs import Sign
from holdfast.services.view.happenings import Happening
from holdfast.services.view.live import Picture
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
UNDER_WAY_MS = 600_000
"""Milliseconds after which no event is expected to report the end of a takeover."""
PHASES = (
    ("detection", "Detection", "from the last sign of life to the decision"),
    ("activation", "Activation", "until the standby works on its state"),
    ("catching-up", "Catching up", "until all that was in flight is out again"),
)


def takeovers(picture: Picture, job: str = "", *, drills: str = "") -> Node:
    """The takeovers, newest first.

    job: the only job shown; empty: all jobs.
    drills: the command that makes a takeover, for the empty state.
    """
    found = [one for one in picture.takeovers if job in ("", one.job)]
    if not found:
        return card("Takeovers", nothing("No takeover yet. To see one:", drills or "holdfast kill worker-1"))
    present = Present(picture)
    cards = [_failure(group, present, picture.happenings) for group in list(_together(found))[:MOST]]
    return element("div", _legend(), *cards, class_="stack")


class Present:
    """State of takeovers that are under way, as of the newest picture."""

    def __init__(self, picture: Picture) -> None:
        self._now_ms = picture.time_ms
        self._states = {
            (job.line.job, unit.unit): copy.state
            for job in picture.jobs
            for unit in job.units
            for copy in unit.copies
            if copy.role == "primary"
        }

    def lasts_ms(self, one: Takeover) -> float | None:
        """Milliseconds since the last sign of life of a takeover under way; None: it is over, or no event will report
        its end.
        """
        ended = one.total_ms is not None or one.superseded or (one.job, one.unit) not in self._states
        since_ms = max(0.0, self._now_ms - one.time_ms)
        return None if ended or since_ms > UNDER_WAY_MS else one.detection_ms + since_ms

    def doing(self, one: Takeover) -> str:
        return "catching up" if self._states.get((one.job, one.unit)) == "running" else "activating"


def _together(found: Sequence[Takeover]) -> Iterator[list[Takeover]]:
    group: list[Takeover] = []
    for one in found:
        if group and group[-1].time_ms - one.time_ms > TOGETHER_MS:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _longest(one: Takeover, present: Present) -> float:
    """Time that is drawn to scale; a prediction that is far off must not make all else too small to see."""
    lasts_ms = present.lasts_ms(one)
    longest = max(one.total_ms or 0.0, lasts_ms or 0.0, one.promise_ms, one.silent_ms or 0.0, one.detection_ms, 1.0)
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


def _failure(group: Sequence[Takeover], present: Present, happenings: Sequence[Happening]) -> Node:
    scale = _round(max(_longest(one, present) for one in group))
    first, last = min(one.time_ms for one in group), max(one.time_ms for one in group)
    of_job, units = {one.job for one in group}, len({(one.job, one.unit) for one in group})
    workers = sorted({one.failed for one in group if one.failed})
    drilled = all(one.drill for one in group)
    silent = all(one.sign in _SILENT for one in group)
    what = "Drill" if drilled else f"{', '.join(workers) or 'A worker'} {_verb(len(workers), silent)}"
    silences = [one.silent_ms for one in group if one.silent_ms is not None]
    worst = element("span", muted("longest silence "), milliseconds(max(silences))) if silences else ""
    rows = [_row(one, scale, present) for one in sorted(group, key=lambda one: (one.job, one.unit, one.epoch))]
    around = [one for one in happenings if first - BEFORE_MS <= one.time_ms <= last + AFTER_MS]
    inner = element(
        "details",
        element("summary", coded("The story, as `holdfast events` tells it")),
        *(_choice(one) for one in group if one.alternatives),
        story(around, "Its events are gone."),
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


def _choice(one: Takeover) -> Node:
    """Schemes that recovery weighed when it chose the one by which the unit was taken over."""
    rows = [
        [
            element("strong", text(each.scheme)) if each is one.alternatives[0] else text(each.scheme),
            milliseconds(each.takes_ms),
            text(", ".join(f"{name} {DASH if ms is None else f'{ms:,.0f}'}" for name, ms in each.phases_ms.items())),
            text(f"{each.cost:.2f}"),
            text(each.rejected),
        ]
        for each in one.alternatives
    ]
    predicted = milliseconds(one.predicted_ms.get("total"))
    beside = muted("predicted ") + predicted + muted(", took ") + milliseconds(one.total_ms)
    promised = muted(", promised ") + milliseconds(one.promise_ms) if one.promise_ms else ""
    said = element("p", text(f"Why {one.unit} had {one.scheme}: "), beside, promised, class_="said")
    heads = ("scheme", "would take", "phases, ms", "cost", "why not")
    return said + table(heads, rows, empty="", label=f"Schemes weighed for {one.unit}", numbers="lnwnw")


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


def _row(one: Takeover, scale: float, present: Present) -> Node:
    title = f"{one.sign}: {one.move}"
    name = element("div", element("strong", text(one.unit)), muted(f" {one.scheme}"), class_="who", title=title)
    moved = element("div", text(f"{one.failed or DASH} → {one.leads or 'no worker'}"), class_="moved")
    lasts_ms = present.lasts_ms(one)
    total = milliseconds(one.total_ms if lasts_ms is None else lasts_ms)
    verdict = _verdict(one) if lasts_ms is None else chip(present.doing(one), "it is under way")
    end = element("div", element("span", total), verdict, class_="total")
    return element("div", name, moved, _bar(one, scale, lasts_ms), end, class_="bar-row")


def _bar(one: Takeover, scale: float, lasts_ms: float | None) -> Node:
    """The bar of a takeover's phases.

    lasts_ms: duration so far of a takeover under way: its copy reports its phases when it has recovered.
    """
    phases = [(name, label, ms) for (name, label, _), ms in zip(PHASES, _lengths(one), strict=True)]
    if one.total_ms is None:
        phases = phases[:1]
    if lasts_ms is not None:
        phases.append(("under-way", "Under way", max(0.0, lasts_ms - one.detection_ms)))
    parts, at = [], 0.0
    for name, label, length in phases:
        said = f"{label.lower()} {length:,.0f} ms"
        style = f"left:{100 * at / scale:.2f}%;width:{100 * length / scale:.2f}%"
        parts.append(element("span", class_=f"phase {name}", style=style, title=said))
        at += length
    if one.silent_ms is not None:
        parts.append(_mark("first", one.silent_ms, scale, f"first output after {one.silent_ms:,.0f} ms"))
    if predicted := one.predicted_ms.get("total"):
        parts.append(_mark("predicted", predicted, scale, f"predicted {predicted:,.0f} ms"))
    if one.promise_ms:
        parts.append(_mark("promise", one.promise_ms, scale, f"promised {one.promise_ms:,.0f} ms"))
    words = ", ".join(f"{label.lower()} {ms:,.0f} ms" for _, label, ms in phases)
    return element("div", *parts, class_="bar", role="img", aria_label=words, tabindex="0")


def _lengths(one: Takeover) -> tuple[float, float, float]:
    activation = one.activation_ms or 0.0
    return one.detection_ms, activation, max(0.0, (one.recovered_ms or activation) - activation)


def _mark(name: str, at_ms: float, scale: float, title: str) -> Node:
    if at_ms > scale:
        return element("span", "→", class_=f"beyond {name}", title=f"{title}, beyond the scale")
    return element("span", class_=f"mark {name}", style=f"left:{100 * at_ms / scale:.2f}%", title=title)


def _verdict(one: Takeover) -> Node:
    if one.total_ms is None:
        return chip("superseded", "another takeover began before it was over") if one.superseded else chip("unknown")
    if one.kept is None:
        return ""
    return chip("kept", "the promise was kept") if one.kept else chip("broken", "the promise was broken")
