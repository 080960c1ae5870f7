"""Records for people: rows of a query and dead letters, escaped, with their positions and times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.services.console.drafts import Draft, Tried, pretty
from holdfast.services.console.graph import graph
from holdfast.services.console.markup import (
    DASH,
    Node,
    card,
    chip,
    count,
    element,
    link,
    moment,
    muted,
    nothing,
    table,
    text,
)
from holdfast.services.kernel.plurals import plural
from holdfast.services.view.live import LiveJob

Record = Mapping[str, Any]
MOST_FIELDS = 12
"""Number of fields above which a row is shown as its text."""


def results(job: LiveJob, query: str, rows: Sequence[Record]) -> Node:
    """The page of a query's newest rows.

    rows: rows as `results --meta` prints them, newest first.
    """
    names = [one.sink.query for one in job.plan.operators if one.kind == "sink"]
    others = [
        element(
            "a", text(name), href=f"/jobs/{job.line.job}/results/{name}", class_="here" if name == query else "link"
        )
        for name in names
    ]
    heads, cells, kinds = _columns([bytes(one["row"]).decode(errors="replace") for one in rows])
    shown = [
        [
            *cells[at],
            moment(one["timestamp_ms"]),
            count(one["batch"]),
            chip(one["status"]) if one["status"] != "final" else text("final"),
            text(f"{one['partition']}·{one['offset']}"),
        ]
        for at, one in enumerate(rows)
    ]
    inner = table(
        (*heads, "written", "batch", "status", "partition·offset"),
        shown,
        empty="No row yet: a query with a window gives rows once event time has passed the window's end.",
        label=f"Rows of {query}",
        numbers=f"{kinds}lnln",
    )
    return card(f"Newest rows of {query}", inner, aside=muted("queries: ") + text(" · ").join(others), class_="wide")


def _columns(rows: Sequence[str]) -> tuple[list[str], list[list[Node]], str]:
    """Heads, the cells of each row, and kinds of columns: a column for each field, or one for rows that are none."""
    read = [_fields(one) for one in rows]
    names = list(dict.fromkeys(name for fields in read if fields is not None for name in fields))
    if not names or len(names) > MOST_FIELDS or None in read:
        return ["row"], [[element("code", text(pretty(one)))] for one in rows], "w"
    known = [fields for fields in read if fields is not None]
    numeric = [all(_is_number(fields.get(name)) for fields in known) for name in names]
    cells = [[_cell(fields, name) for name in names] for fields in known]
    return names, cells, "".join("n" if one else "v" for one in numeric)


def _fields(row: str) -> dict[str, Any] | None:
    """Fields of a JSON object; None for other text."""
    try:
        found = json.loads(row)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(fields: Mapping[str, Any], name: str) -> Node:
    """A JSON value, not rounded; a string without its quotes."""
    if name not in fields:
        return muted(DASH)
    value = fields[name]
    if value is None:
        return muted("null")
    return element("code", text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))


def dead_letters(job: str, letters: Sequence[Record]) -> Node:
    """The page of a job's newest dead letters.

    letters: dead letters as `dead-letters --json` prints them, newest first.
    """
    shown = [
        [
            element("span", text(one["reason"]), class_="reason"),
            element("pre", text(one.get("row") or one.get("raw") or one.get("raw_base64") or ""), class_="record"),
            text(f"{one['topic']}[{one['partition']}] {one['offset']}" if one["topic"] else f"batch {one['batch']}"),
            text(one["origin"]),
            moment(one["timestamp_ms"]),
        ]
        for one in letters
    ]
    if not shown:
        return card("Dead letters", nothing("No dead letters: every record could be processed."))
    inner = table(
        ("reason", "record", "where", "operator", "when"), shown, empty="", label="Dead letters", numbers="wwlll"
    )
    hint = muted("sent back by ") + element("code", text(f"holdfast dead-letters {job} --replay"))
    return card("Dead letters", inner, aside=hint, class_="wide")


def draft(found: Draft) -> Node:
    """Problems of a job file, or its plan."""
    if found.plan is not None:
        warnings = [element("p", text(one), class_="notice warn") for one in found.plan.warnings]
        said = muted(f"{plural(len(found.plan.units), 'unit')}, a batch each {found.plan.interval_ms} ms")
        return card("The plan", graph(found.plan), *warnings, aside=said)
    lines = [
        element(
            "li",
            element("span", text(f"line {line}" if line else one.path), class_="at"),
            element("strong", text(one.path)) if line else "",
            element("div", text(one.message)),
            element("div", text(one.hint), class_="muted") if one.hint else "",
        )
        for line, one in found.problems
    ]
    return card(plural(len(lines), "problem"), element("ul", *lines, class_="problems"))


def tried(found: Tried) -> Node:
    heads, rows, kinds = _columns(found.rows)
    said = element("pre", text(found.said), class_="record said")
    inner = table(heads, rows, empty="The sample gives no row.", label="Rows of the try", numbers=kinds)
    return card("Rows", inner, said, aside=chip("available" if found.well else "failed"))


def no_job(job: str) -> Node:
    """Card of a job that does not run."""
    return card("Job", nothing(f"No job {job} runs."), element("p", link("All jobs", "/"), class_="empty"))
