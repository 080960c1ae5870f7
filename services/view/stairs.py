"""Stairs of an incident: the number of available queries of the job over time, folded from `events`.

Source: MECHANISMS R6. Recovery publishes the begin of an incident, the controller the loss and return of queries.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from holdfast.schemas.events import Event

BEGINS, OVER = "incident", "incident-over"
AVAILABLE, UNAVAILABLE = "query-available", "query-unavailable"


class Stair(msgspec.Struct, frozen=True):
    """A step of the stairs.

    after_ms: milliseconds since the incident began.
    available: number of queries available from then on.
    """

    after_ms: int
    available: int


class Stairs(msgspec.Struct, frozen=True):
    """Stairs of the last incident of a job.

    queries: number of the job's queries.
    steps: the first one is the beginning.
    """

    began_ms: int
    over: bool
    queries: int
    steps: tuple[Stair, ...]


def stairs(job: str, queries: Collection[str], events: Sequence[Event]) -> Stairs | None:
    """The stairs of the last incident; None if no event reports the begin of an incident.

    Args:
        queries: names of all queries of the job.
        events: events of any job, in the order of their log.
    """
    first = {query: one.kind for one in reversed(events) if one.job == job and (query := _query(one, queries))}
    up = {query for query in queries if first.get(query) != AVAILABLE}  # the first event shows the state before
    began_ms, over, steps = 0, True, list[Stair]()
    for event in events:
        if event.job != job:
            continue
        if event.kind == BEGINS and over:
            began_ms, over, steps = event.time_ms, False, [Stair(0, len(up))]
        elif event.kind == OVER:
            over = True
        elif query := _query(event, queries):
            (up.add if event.kind == AVAILABLE else up.discard)(query)
            if steps and steps[-1].available != len(up) and not (over and steps[-1].available == len(queries)):
                steps.append(Stair(event.time_ms - began_ms, len(up)))
    return Stairs(began_ms, over, len(queries), tuple(steps)) if steps else None


def _query(event: Event, queries: Collection[str]) -> str:
    """The query of an event; empty if the event concerns none of the job's queries."""
    if event.kind not in (AVAILABLE, UNAVAILABLE):
        return ""
    name = event.detail.partition(",")[0].removesuffix(" catches up")
    return name if name in queries else ""
