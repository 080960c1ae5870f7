"""Sources that are tables: what can be one, and what may read it.

Source: JOBS "A job file". A table is no stream: what counts is the newest row of each key, which only a join looks up.
"""

from __future__ import annotations

from collections.abc import Iterator

from schemas.job_operators import Join, JoinSides
from schemas.jobs import JobSpec, Source
from schemas.plans import Problem
from services.kernel.codecs import fields
from services.kernel.planning.graph import Graph
from services.kernel.suggestions import suggest


def problems(spec: JobSpec, graph: Graph) -> Iterator[Problem]:
    """What is wrong with a job's tables, their readers, and the bounds of its joins."""
    for name, source in spec.sources.items():
        if source.table is not None:
            yield from _key_problems(f"sources.{name}", source, source.table)
    yield from _reader_problems(spec, graph)
    for name, operator in spec.operators.items():
        if isinstance(operator, Join):
            yield from _join_problems(f"operators.{name}.join", operator.join, spec)


def _key_problems(path: str, source: Source, key: list[str]) -> Iterator[Problem]:
    for index, column in enumerate(key):
        at = f"{path}.table[{index}]"
        if column not in source.fields:
            yield Problem(at, f"there is no field '{column}'", suggest(column, source.fields))
        elif column in key[:index]:
            yield Problem(at, f"'{column}' is named twice", "name it once")
        elif fields.required(source.fields[column]).startswith(("list<", "struct<")):
            yield Problem(at, f"'{column}' is a {source.fields[column]}, which is no key", "choose a plain column")
    if source.start != "earliest":
        yield Problem(f"{path}.start", "a table is read from its beginning", "leave it out")


def _reader_problems(spec: JobSpec, graph: Graph) -> Iterator[Problem]:
    for reader, slots in graph.slots.items():
        for index, slot in enumerate(slots):
            source = spec.sources.get(slot.producer)
            if source is None or source.table is None:
                continue
            if index == 0 or not isinstance(spec.operators.get(reader), Join):
                message = f"{slot.producer} is a table, which only the right side of a join reads"
                yield Problem(slot.path, message, "without `table` it is a stream of changes")


def _join_problems(path: str, join: JoinSides, spec: JobSpec) -> Iterator[Problem]:
    source = spec.sources.get(join.right)
    key = None if source is None else source.table
    if key is None:
        if join.within_s is None:
            hint = "give the largest difference of event times, or make the right side a table"
            yield Problem(f"{path}.within_s", "is missing: two streams are joined within a time", hint)
        return
    if join.within_s is not None:
        yield Problem(f"{path}.within_s", f"{join.right} is a table: its rows count at any time", "leave it out")
    if source is not None and set(key) <= source.fields.keys() and sorted(join.on) != sorted(key):
        message = f"is {', '.join(join.on)}, but the key of table {join.right} is {', '.join(key)}"
        yield Problem(f"{path}.on", message, f"on: [{', '.join(key)}]")
