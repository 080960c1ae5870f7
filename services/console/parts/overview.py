"""The overview: how the cluster is, in words; its jobs, its workers, and what happened last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.services.console.markup import (
    DASH,
    Node,
    card,
    chip,
    coded,
    count,
    element,
    figure,
    figures,
    link,
    milliseconds,
    moment,
    muted,
    nothing,
    number,
    per_s,
    size,
    table,
    text,
    unknown,
)
from holdfast.services.console.parts.spark_lines import spark_line
from holdfast.services.kernel.plurals import plural
from holdfast.services.view.happenings import Happening
from holdfast.services.view.lines import WorkerLine
from holdfast.services.view.live import LiveJob, Picture
from holdfast.services.view.protection import said
from holdfast.services.view.takeovers import Takeover

Rates = Mapping[str, Sequence[float]]
"""Records a second that a job took in, by generation, the newest last."""
LAST = 8
_FREQUENT = frozenset({"query-available", "query-unavailable", "takeover-judged", "scheme-chosen"})
"""Kinds of events that come by the dozen with each failure: the pages of takeovers and events have them."""


def overview(picture: Picture, rates: Rates, *, may_act: bool) -> Node:
    return element(
        "div",
        _health(picture),
        _at_a_glance(picture, rates),
        _jobs(picture, rates),
        _workers(picture, may_act=may_act),
        _lately(picture.happenings),
        class_="stack",
    )


class Wrong(NamedTuple):
    """A problem, and the advice against it; empty advice: wait, the cluster recovers by itself."""

    said: str
    advice: str = ""


def health(picture: Picture) -> tuple[str, list[Wrong]]:
    """A tone, and the present problems in words; without a problem the list is empty."""
    bad, warn = [], []
    for job in picture.jobs:
        name, state = job.line.job, job.line.state
        if state == "failed":
            bad.append(
                Wrong(f"job {name} has failed: {job.line.error}", "Mend what the error names, and submit it again.")
            )
        elif state in ("stopped", "waiting"):
            warn.append(
                Wrong(f"job {name} is {state}: {job.line.error or 'see its page'}", "It continues once that is there.")
            )
        elif down := job.line.units - job.line.available:
            warn.append(
                Wrong(f"{plural(down, 'unit')} of {name} {'is' if down == 1 else 'are'} not up", _soon(picture))
            )
        if behind := [one.query for one in job.status.queries if not one.available]:
            warn.append(
                Wrong(f"{plural(len(behind), 'query', 'queries')} of {name} {_lag(behind, job)}: {', '.join(behind)}")
            )
        if job.status.out:
            shares = ", ".join(f"{query} {share:.0%}" for query, share in job.status.fidelity.items())
            said_of = f"job {name}: out: {', '.join(job.status.out)}; the other units give, of all rows: {shares}"
            warn.append(Wrong(said_of, "Rows are tentative until they are back: the page of incidents has the plan."))
        longer = "Give the topic a longer retention, or let the job catch up."
        warn += [Wrong(f"job {name}: {risk}", longer) for risk in job.status.retention]
        room = "A worker with free slots takes standbys: `holdfast up --workers N`."
        warn += [Wrong(f"job {name}: {one}", room) for one in said(job.line.unprotected, job.line.units)]
    for worker in picture.workers:
        if worker.state not in ("live", "leaving"):
            turn = f": {worker.turn}" if worker.turn else ""
            again = "Its parent starts it again; its log says why it ended: `holdfast logs`."
            warn.append(Wrong(f"{worker.worker} is {worker.state}{turn}", again))
    if not picture.workers:
        bad.append(Wrong("no worker was heard of in the last minute", "`holdfast up` starts some."))
    return ("bad" if bad else "warn" if warn else "good"), [*bad, *warn]


def _soon(picture: Picture) -> str:
    """Advice about units that are down."""
    if any(one.state == "live" and one.copies < one.slots for one in picture.workers):
        return ""
    return "No worker has a free slot: `holdfast up --workers N` starts more."


def _lag(behind: Sequence[str], job: LiveJob) -> str:
    late = all(one.catching_up for one in job.status.queries if one.query in behind)
    if late:
        return "catches up" if len(behind) == 1 else "catch up"
    return "is unavailable" if len(behind) == 1 else "are unavailable"


def _health(picture: Picture) -> Node:
    kind, wrong = health(picture)
    live = sum(one.state == "live" for one in picture.workers)
    if not wrong:
        runs = plural(len(picture.jobs), "job") + (" runs" if len(picture.jobs) == 1 else " run")
        words = f"All is well: {runs} on {plural(live, 'worker')}." if picture.jobs else (
            f"The cluster is ready: {plural(live, 'worker')}, no job."
        )  # fmt: skip
        head = element("p", element("span", class_="dot", aria_hidden="true"), text(words))
        return element("div", head, class_=f"health {kind}", role="status")
    lines = "".join(element("li", text(one.said), _advice(one)) for one in wrong)
    head = element("span", class_="dot", aria_hidden="true") + text(
        "Something is broken:" if kind == "bad" else "The cluster needs a look:"
    )
    return element("div", element("p", head), element("ul", lines), class_=f"health {kind}", role="status")


def _advice(one: Wrong) -> Node:
    if not one.advice:
        return element("span", text(" It heals by itself; nothing to do."), class_="muted")
    return element("span", text(" "), coded(one.advice), class_="muted")


def _at_a_glance(picture: Picture, rates: Rates) -> Node:
    """Figures of the whole cluster."""
    now = [rates[one.line.generation][-1] for one in picture.jobs if rates.get(one.line.generation)]
    queries = [one for job in picture.jobs for one in job.status.queries]
    up = sum(one.available for one in queries)
    units = sum(len(one.plan.units) for one in picture.jobs)
    bare = sum(len(names) for one in picture.jobs for names in one.line.unprotected.values())
    live = [one for one in picture.workers if one.state == "live"]
    slots, copies = sum(one.slots for one in live), sum(one.copies for one in live)
    last = next((one for one in picture.takeovers if one.total_ms is not None), None)
    return figures(
        figure("Jobs", number(str(len(picture.jobs)), " running")),
        figure("Taken in", per_s(sum(now) if now else None), muted("records, all jobs")),
        figure("Queries up", number(str(up), f" of {len(queries)}"), tone="" if up == len(queries) else "warn"),
        figure("Units protected", number(str(units - bare), f" of {units}"), tone="warn" if bare else ""),
        figure("Slots in use", number(str(copies), f" of {slots}"), muted(plural(len(live), "worker"))),
        figure("Last takeover", milliseconds(None if last is None else last.total_ms), _when(last)),
    )


def _when(one: Takeover | None) -> Node:
    if one is None:
        return muted("none yet")
    return text(f"{one.unit} ") + moment(one.time_ms)


def _jobs(picture: Picture, rates: Rates) -> Node:
    if not picture.jobs and not picture.over:
        return card("Jobs", nothing("No job runs yet.", "holdfast submit job.yaml --create-topics"))
    rows = [_job(one, rates.get(one.line.generation, ())) for one in picture.jobs]
    heads = ("job", "state", "since", "units up", "taken in", "", "queries", "dead letters")
    running = table(
        heads, rows, empty="No job runs: `holdfast submit` starts one.", label="Jobs that run", numbers="lllnnlnn"
    )
    ended = [
        [text(one.job), chip(one.state), moment(one.since_ms), text(one.generation), text(one.error)]
        for one in reversed(picture.over)
    ]
    past = ""
    if ended:
        inner = table(
            ("job", "state", "since", "generation", "why"), ended, empty="", label="Jobs that are over", numbers="llllw"
        )
        past = element("details", element("summary", text(f"{plural(len(ended), 'job')} over")), inner, class_="past")
    return card("Jobs", running, past)


def _job(job: LiveJob, rates: Sequence[float]) -> list[Node]:
    line, queries = job.line, job.status.queries
    up = sum(one.available for one in queries)
    dead = job.status.dead
    return [
        link(line.job, f"/jobs/{line.job}", "link strong"),
        chip(line.state, line.error),
        moment(line.since_ms),
        number(str(line.available), f" of {line.units}"),
        per_s(rates[-1] if rates else None),
        spark_line(rates),
        number(str(up), f" of {len(queries)} up") if queries else unknown(),
        link(f"{dead:,}", f"/jobs/{line.job}/dead-letters") if dead else count(0),
    ]


def _workers(picture: Picture, *, may_act: bool) -> Node:
    load = _load(picture)
    heads = ("worker", "state", "zone", "slots", "load", "memory", "process", *(("",) if may_act else ()))
    rows = [_worker(one, load.get(one.worker), may_act=may_act) for one in picture.workers]
    inner = table(
        heads,
        rows,
        empty="No worker was heard of in the last minute: `holdfast up` starts some.",
        label="Workers",
        numbers="lllnnnnn",
    )
    return card("Workers", inner, aside=text("load: of batches and checkpoints, in parts of a core"))


def _load(picture: Picture) -> dict[str, float]:
    """Share of a core used by the copies on each worker, as far as it is known."""
    found: dict[str, float] = {}
    for job in picture.jobs:
        for one in job.costs.copies:
            if one.load is not None:
                found[one.worker] = found.get(one.worker, 0.0) + one.load
    return found


def _worker(one: WorkerLine, load: float | None, *, may_act: bool) -> list[Node]:
    share = min(1.0, one.copies / one.slots) if one.slots else 0.0
    bar = element("span", element("span", style=f"width:{share:.0%}"), class_="meter", aria_hidden="true")
    row = [
        element("strong", text(one.worker)) + (muted(f" {one.host}") if one.host else ""),
        chip(one.state, one.turn),
        text(one.zone) if one.zone else unknown(),
        element("span", bar, number(str(one.copies), f" of {one.slots}"), class_="used", title=", ".join(one.units)),
        unknown() if load is None else number(f"{100 * load:.1f}", " %"),
        size(one.rss_bytes),
        text(one.pid),
    ]
    if may_act:
        buttons = [
            element(
                "button", text(label), type="button", class_="small", data_act=label, data_of=one.worker,
                aria_label=f"{label} {one.worker}",
            )
            for label in ("kill", "stall")
        ]  # fmt: skip
        row.append(element("span", *buttons, class_="buttons") if one.state == "live" else "")
    return row


def _lately(happenings: Sequence[Happening]) -> Node:
    return card(
        "What happened last",
        story(
            [one for one in happenings if one.kind not in _FREQUENT][-LAST:], "Nothing has happened yet.", short=True
        ),
        aside=link("Takeovers, phase by phase", "/takeovers"),
    )


def story(happenings: Sequence[Happening], empty: str, *, short: bool = False) -> Node:
    """Lines as `holdfast events` prints them, newest first.

    short: true to cut long lines, with the whole text on hover.
    """
    if not happenings:
        return nothing(empty)
    lines = [
        element(
            "li",
            moment(one.time_ms),
            element("span", text(str(one)), title=str(one) if short else None),
            class_="failure" if failed(one) else None,
        )
        for one in reversed(happenings)
    ]
    return element("ol", *lines, class_="story short" if short else "story")


def failed(one: Happening) -> bool:
    return one.kind in ("failure", "job-failed", "promise-broken")


def summary(job: LiveJob, rates: Sequence[float]) -> Node:
    """The figures of a job."""
    status, unprotected = job.status, sum(map(len, job.line.unprotected.values()))
    queries = status.queries
    up, units = sum(one.available for one in queries), len(job.plan.units)
    lag = sum(job.lags.values())
    slowest = max(job.costs.latencies, key=lambda one: one.p50_ms, default=None)
    p50, p99 = (None, None) if slowest is None else (slowest.p50_ms, slowest.p99_ms)
    return figures(
        figure("Taken in", per_s(rates[-1] if rates else None), spark_line(rates)),
        figure("Latency p50, slowest", milliseconds(p50), muted("p99 ") + milliseconds(p99)),
        figure("Queries up", number(str(up), f" of {len(queries)}"), tone="" if up == len(queries) else "warn"),
        figure("Units protected", number(str(units - unprotected), f" of {units}"), tone="warn" if unprotected else ""),
        figure("Lag", number(f"{lag:,}" if job.lags else DASH, " records"), muted("not yet taken in")),
        figure("Records", count(status.records), muted(f"{status.late:,} late, {status.lost:,} lost")),
        figure(
            "Dead letters", link(f"{status.dead:,}", f"/jobs/{job.line.job}/dead-letters") if status.dead else count(0)
        ),
    )
