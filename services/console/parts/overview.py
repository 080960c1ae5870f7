"""The overview: how the cluster is, in words; its jobs, its workers, and what happened last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.services.console.markup import (
    DASH,
    Node,
    card,
    chip,
    count,
    element,
    figure,
    figures,
    link,
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

Rates = Mapping[str, Sequence[float]]
"""Records a second that a job took in, by generation, the newest last."""
LAST = 8
_FREQUENT = frozenset({"query-available", "query-unavailable", "takeover-judged"})
"""Kinds of events that come by the dozen with each failure: the pages of takeovers and events have them."""


def overview(picture: Picture, rates: Rates, *, may_act: bool) -> Node:
    return element(
        "div",
        _health(picture),
        _jobs(picture, rates),
        _workers(picture, may_act=may_act),
        _lately(picture.happenings),
        class_="stack",
    )


def health(picture: Picture) -> tuple[str, list[str]]:
    """A tone, and what is wrong in words; nothing: all is well."""
    bad, warn = [], []
    for job in picture.jobs:
        name, state = job.line.job, job.line.state
        if state == "failed":
            bad.append(f"job {name} has failed: {job.line.error}")
        elif state in ("stopped", "waiting"):
            warn.append(f"job {name} is {state}: {job.line.error or 'see its page'}")
        elif down := job.line.units - job.line.available:
            warn.append(f"{plural(down, 'unit')} of {name} {'is' if down == 1 else 'are'} not up")
        if behind := [one.query for one in job.status.queries if not one.available]:
            warn.append(f"{plural(len(behind), 'query', 'queries')} of {name} {_lag(behind, job)}: {', '.join(behind)}")
        if job.status.out:
            shares = ", ".join(f"{query} {share:.0%}" for query, share in job.status.fidelity.items())
            warn.append(f"job {name}: out: {', '.join(job.status.out)}; the other units give, of all rows: {shares}")
        warn += [f"job {name}: {risk}" for risk in job.status.retention]
        warn += [f"job {name}: {one}" for one in said(job.line.unprotected, job.line.units)]
    for worker in picture.workers:
        if worker.state not in ("live", "leaving"):
            warn.append(f"{worker.worker} is {worker.state}{': ' + worker.turn if worker.turn else ''}")
    if not picture.workers:
        bad.append("no worker was heard of in the last minute")
    return ("bad" if bad else "warn" if warn else "good"), [*bad, *warn]


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
        return element("p", element("span", class_="dot", aria_hidden="true"), text(words), class_=f"health {kind}")
    lines = "".join(element("li", text(one)) for one in wrong)
    head = element("span", class_="dot", aria_hidden="true") + text(
        "Something is broken:" if kind == "bad" else "The cluster needs a look:"
    )
    return element("div", element("p", head), element("ul", lines), class_=f"health {kind}", role="status")


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
    live = [one for one in picture.workers if one.state == "live"]
    slots, copies = sum(one.slots for one in live), sum(one.copies for one in live)
    heads = ("worker", "state", "zone", "slots", "memory", "processor time", "process", *(("",) if may_act else ()))
    rows = [_worker(one, may_act=may_act) for one in picture.workers]
    inner = table(
        heads,
        rows,
        empty="No worker was heard of in the last minute: `holdfast up` starts some.",
        label="Workers",
        numbers="lllnnnnn",
    )
    return card("Workers", inner, aside=text(f"{copies} of {plural(slots, 'slot')} in use"))


def _worker(one: WorkerLine, *, may_act: bool) -> list[Node]:
    share = min(1.0, one.copies / one.slots) if one.slots else 0.0
    bar = element("span", element("span", style=f"width:{share:.0%}"), class_="meter", aria_hidden="true")
    row = [
        element("strong", text(one.worker)) + (muted(f" {one.host}") if one.host else ""),
        chip(one.state, one.turn),
        text(one.zone) if one.zone else unknown(),
        element("span", bar, number(str(one.copies), f" of {one.slots}"), class_="used", title=", ".join(one.units)),
        size(one.rss_bytes),
        number(f"{one.cpu_s:,.1f}", " s"),
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
        story([one for one in happenings if one.kind not in _FREQUENT][-LAST:], "Nothing has happened yet."),
        aside=link("Takeovers, phase by phase", "/takeovers"),
    )


def story(happenings: Sequence[Happening], empty: str) -> Node:
    """Lines as `holdfast events` tells them, the newest first."""
    if not happenings:
        return nothing(empty)
    lines = [
        element("li", moment(one.time_ms), element("span", text(str(one))), class_="failure" if failed(one) else None)
        for one in reversed(happenings)
    ]
    return element("ol", *lines, class_="story")


def failed(one: Happening) -> bool:
    return one.kind in ("failure", "job-failed", "promise-broken")


def summary(job: LiveJob, rates: Sequence[float], latency: Node) -> Node:
    """The figures of a job."""
    status, unprotected = job.status, sum(map(len, job.line.unprotected.values()))
    queries = status.queries
    up, units = sum(one.available for one in queries), len(job.plan.units)
    lag = sum(job.lags.values())
    return figures(
        figure("Taken in", per_s(rates[-1] if rates else None), spark_line(rates)),
        figure("Latency, slowest query", latency, muted("from arrival to result")),
        figure("Queries up", number(str(up), f" of {len(queries)}"), tone="" if up == len(queries) else "warn"),
        figure("Units protected", number(str(units - unprotected), f" of {units}"), tone="warn" if unprotected else ""),
        figure("Lag", number(f"{lag:,}" if job.lags else DASH, " records"), muted("not yet taken in")),
        figure("Records", count(status.records), muted(f"{status.late:,} late, {status.lost:,} lost")),
        figure(
            "Dead letters", link(f"{status.dead:,}", f"/jobs/{job.line.job}/dead-letters") if status.dead else count(0)
        ),
    )
