"""A job as it runs: its figures, its graph, its sources, queries and units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.services.console.graph import graph
from holdfast.services.console.markup import (
    Node,
    card,
    chip,
    count,
    element,
    link,
    milliseconds,
    moment,
    muted,
    per_s,
    table,
    text,
    tone,
)
from holdfast.services.console.parts import incidents
from holdfast.services.console.parts.overview import summary
from holdfast.services.console.parts.tentative import tentative_results
from holdfast.services.view.lines import UnitLine, UnitProgress
from holdfast.services.view.live import LiveJob
from holdfast.services.view.workers import natural

UNITS_A_PAGE = 50
"""Units are sent again when one changes: all those of a large job would be hundreds of kilobytes each time."""
MOST_PARTS = 3
"""Number of partitions whose lag is shown without a hover."""
NOT_TIMES = ("end", "loaded")
"""Words in place of a watermark."""


def job_page(job: LiveJob, rates: Sequence[float], now_ms: int, page: int = 1) -> Node:
    """The page of a job.

    now_ms: time of day, milliseconds since 1970.
    page: page of the units of a large job.
    """
    return element(
        "div",
        *_notices(job),
        summary(job, rates),
        _incident(job, now_ms),
        card("Graph", graph(job.plan, job.units, job.costs), aside=_key(), class_="wide"),
        _queries(job),
        tentative_results(job),
        _sources(job),
        _units(job, page),
        class_="stack",
    )


def _notices(job: LiveJob) -> list[Node]:
    """Notices of the job for a person, as `status` prints them."""
    status = job.status
    lines = [("bad", f"failed: {status.error}")] if status.state == "failed" else []
    lines += [("warn", status.error)] if status.error and status.state != "failed" else []
    if status.out:
        names = ", ".join(status.out)
        lines.append(("warn", f"out, and not recovered yet: {names}; the other units give tentative results"))
    lines += [("warn", f"retention: {one}") for one in status.retention]
    lines += [("warn", f"{one['path']}: {one['message']}") for one in status.problems]
    lines += [("calm", one) for one in status.warnings]
    if status.unserved:
        lines.append(("warn", f"no place for a standby of {', '.join(status.unserved)}: every worker is full"))
    return [element("p", text(said), class_=f"notice {tone}") for tone, said in lines]


def _incident(job: LiveJob, now_ms: int) -> Node:
    """The incident of the job while it is under way; the page of incidents also has the last one that is over."""
    line = job.incident
    return "" if line is None or line.state == incidents.OVER else incidents.incident(line, now_ms)


def _key() -> Node:
    lead = element("span", element("span", class_="lead-key", aria_hidden="true"), text("leader"))
    stand = element("span", element("span", class_="stand-key", aria_hidden="true"), text("standby"))
    return element("span", lead, stand, class_="keys")


def _queries(job: LiveJob) -> Node:
    sinks = {one.sink.query: one for one in job.plan.operators if one.kind == "sink"}
    rates = {one.edge: one.records_per_s for one in job.costs.edges if one.direction == "out"}
    latencies = {one.query: one for one in job.costs.latencies}
    rows = []
    for one in job.status.queries:
        sink = sinks.get(one.query)
        topic = "" if sink is None else sink.folder or sink.written_topic
        latency = latencies.get(one.query)
        rows.append([
            link(one.query, f"/jobs/{job.line.job}/results/{one.query}", "link strong"),
            chip(job.status.state_of(one)),
            moment(one.since_ms),
            milliseconds(None if latency is None else latency.p50_ms),
            milliseconds(None if latency is None else latency.p99_ms),
            milliseconds(one.before_ms),
            per_s(None if sink is None else rates.get(sink.name)),
            text(topic),
        ])  # fmt: skip
    heads = ("query", "state", "since", "latency p50", "p99", "usual mean", "rows out", "topic")
    inner = table(heads, rows, empty="Nothing is known of the queries yet.", label="Queries", numbers="lllnnnnl")
    return card("Queries", inner, aside=text("latency from arrival to result, of the last minute"))


def _sources(job: LiveJob) -> Node:
    rates: dict[str, float] = {}
    taken: dict[str, int] = {}
    for one in job.costs.edges:
        if one.direction == "in":
            taken[one.edge] = taken.get(one.edge, 0) + one.records
            rates[one.edge] = rates.get(one.edge, 0.0) + (one.records_per_s or 0.0)
    marks = {one.operator: _watermark(job, one.operator) for one in job.plan.sources}
    holds = _slowest(job)
    rows = [
        [
            element("strong", text(one.operator)),
            text(one.topic),
            count(len(one.first)),
            per_s(rates.get(one.operator)),
            count(taken.get(one.operator)),
            count(job.lags.get(one.operator)) + _by_partition(job.lags_of.get(one.operator, {})),
            _time(marks[one.operator]) + (muted(" holds the others back") if one.operator == holds else ""),
        ]
        for one in job.plan.sources
    ]
    heads = ("source", "topic", "partitions", "taken in", "records", "lag", "watermark")
    return card("Sources", table(heads, rows, empty="The job reads no topic.", label="Sources", numbers="llnnnnl"))


def _by_partition(parts: Mapping[str, int]) -> Node:
    """Partitions with a lag, the largest first; all of them on hover. Empty with a single
    partition, or without a lag.
    """
    late = sorted(((lag, of) for of, lag in parts.items() if lag), reverse=True)
    if len(parts) < 2 or not late:
        return ""
    shown = ", ".join(f"[{of}] {lag:,}" for lag, of in late[:MOST_PARTS])
    rest = f" and {len(late) - MOST_PARTS} more" if len(late) > MOST_PARTS else ""
    whole = "\n".join(f"partition {of}: {lag:,}" for of, lag in parts.items())
    return element("div", text(f"{shown}{rest}"), class_="muted parts", title=whole)


def _watermark(job: LiveJob, source: str) -> str | None:
    """The lowest of the units that read it, since that counts."""
    names = {unit.name for unit in job.plan.units if source in unit.operators}
    marks = [one.watermark for one in job.status.units if one.unit in names]
    times = [mark for mark in marks if mark not in NOT_TIMES]
    if None in times:
        return None
    return min((mark for mark in times if mark), default=marks[0] if marks else None)


def _slowest(job: LiveJob) -> str:
    """The source with the lowest watermark, if several sources have one; empty if none delays another."""
    marks = {one.operator: _watermark(job, one.operator) for one in job.plan.sources}
    times = {name: mark for name, mark in marks.items() if mark and mark not in NOT_TIMES}
    if len(set(times.values())) < 2:
        return ""
    return min(times, key=lambda name: times[name])


def _time(watermark: str | None) -> Node:
    if watermark is None:
        return muted("none yet")
    if watermark in NOT_TIMES:
        return muted(watermark)
    return element("span", text(watermark[:16].replace("T", " ")), title=watermark)


def _units(job: LiveJob, page: int) -> Node:
    """Units that do not run come first: a large job has them on the first of its pages."""
    lines = {one.unit: one for one in job.units}
    known = [one for one in job.status.units if one.unit in lines]
    known.sort(key=lambda one: (tone(one.state) == "good", natural(one.unit)))
    pages = max(1, -(-len(known) // UNITS_A_PAGE))
    page = min(max(1, page), pages)
    shown = known[(page - 1) * UNITS_A_PAGE : page * UNITS_A_PAGE]
    rows = [_unit(one, lines[one.unit]) for one in shown]
    heads = ("unit", "state", "leader", "standbys", "scheme", "batch", "behind", "watermark", "dead", "error")
    inner = table(heads, rows, empty="The job has no units yet.", label="Units", numbers="lllllnnlnw")
    return card("Units", inner, aside=_pages(job, known, page, pages), class_="wide")


def _pages(job: LiveJob, known: Sequence[UnitProgress], page: int, pages: int) -> Node:
    """Links to the other pages, and the number of units in each state; empty: all units are shown."""
    if pages == 1:
        return ""
    states = Counter(one.state for one in known)
    said = ", ".join(f"{number:,} {state}" for state, number in states.most_common())
    first = f"/jobs/{job.line.job}"
    others = [
        link(label, f"{first}?units={to}") if 1 <= to <= pages else muted(label)
        for label, to in (("back", page - 1), ("next", page + 1))
    ]
    return text(f"{said} · page {page} of {pages} ") + " ".join(others)


def _unit(one: UnitProgress, line: UnitLine) -> list[Node]:
    standbys = [copy for copy in line.copies if copy.role != "primary"]
    shown = [element("span", text(copy.worker), title=f"{copy.state}, batch {copy.batch}") for copy in standbys]
    waits = max(0, one.processed - one.acked)
    tasks = ", ".join(line.tasks)
    return [
        element("strong", text(one.unit), title=tasks),
        chip(one.state, one.versions),
        text(one.worker) if one.worker else muted("no worker"),
        text(", ").join(shown) if shown else muted("none"),
        text(f"{line.scheme}, adaptive" if line.adaptive else line.scheme),
        count(one.processed),
        element("span", count(waits), title="batches since the newest checkpoint, which a recovery would repeat"),
        _time(one.watermark),
        count(one.dead),
        text(one.error),
    ]
