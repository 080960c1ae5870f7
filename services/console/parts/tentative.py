"""Tentative results of a job: the lost units, the output without them, and the open and corrected rows."""

from __future__ import annotations

from holdfast.services.console.markup import Node, card, count, element, number, table, text, unknown
from holdfast.services.kernel.plans.priorities import needed, tentative
from holdfast.services.view.live import LiveJob


def tentative_results(job: LiveJob) -> Node:
    """Empty: no query of the job has any."""
    status = job.status
    asked = [query for query in needed(job.plan) if tentative(job.plan, query)]
    if not asked and not status.out:
        return ""
    rows = [_row(job, query) for query in asked or status.fidelity]
    heads = ("query", "fidelity now", "open rows", "fidelity of open rows", "corrected rows")
    inner = table(heads, rows, empty="No query has tentative results.", label="Tentative results", numbers="lnnnn")
    out = f"out: {', '.join(status.out)}" if status.out else "nothing is out: all rows are final"
    return card("Tentative results", inner, aside=text(out))


def _row(job: LiveJob, query: str) -> list[Node]:
    status = job.status
    open_rows = status.tentative.get(query)
    now = status.fidelity.get(query) if status.out else 1.0
    return [
        element("strong", text(query)),
        element("span", _share(now), title="part of the rows that does not need the units that are out"),
        count(0 if open_rows is None else open_rows.rows),
        _share(None if open_rows is None else open_rows.fidelity),
        count(status.corrected.get(query, 0)),
    ]


def _share(value: float | None) -> Node:
    return unknown() if value is None else number(f"{100 * value:.0f}", " %")
