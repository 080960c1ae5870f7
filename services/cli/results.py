"""The command `results`: rows of a query, as they stand committed in its sink's topic."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import DataDir, JobName, Json, KafkaAt
from holdfast.services.cli.terminal import note, print_raw
from holdfast.services.kernel.errors import CommandFailed

if TYPE_CHECKING:
    from holdfast.services.log.protocol import Message


def results(
    job: JobName,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Name of the query.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with new rows, until Ctrl-C.")] = False,
    until_idle: Annotated[
        float | None, typer.Option("--until-idle", min=0, help="End when no row came for so many seconds.")
    ] = None,
    meta: Annotated[bool, typer.Option("--meta", help="With batch, status, partition, offset and time.")] = False,
    tentative: Annotated[
        bool, typer.Option("--tentative", help="Also tentative rows, and what takes them back; with --meta and keys.")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="End after so many rows.")] = None,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Print a query's rows from the first, a JSON object a line; also of a job that has ended.

    Without --follow or --until-idle it ends with the rows that are there now. Without --tentative the rows are final.
    """
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.kernel.dataflow.sink_records import CLOSING, FINAL, TENTATIVE, RowsOf
    from holdfast.services.view.losses import dropped_as_late, why_late
    from holdfast.services.view.reader import named_job, read_jobs, read_progress
    from holdfast.services.view.rows import rows_of, sinks_of
    from holdfast.services.view.tail import read_topics

    with connected(data_dir, kafka) as door:
        view = read_jobs(door)
        plan = view.plan(named_job(view, job).generation)
        if plan is None:
            raise CommandFailed(f"job {job} has no results: it was not admitted", f"`holdfast status {job}` says why")
        found = sinks_of(plan, query)
        if place := next((one.elsewhere for one in found if one.elsewhere), ""):
            raise CommandFailed(f"query {query} writes no topic: its rows are in {place}")
        sinks = {one.sink.topic: one for one in found}
        for topic, sink in sinks.items():
            if topic not in door.present:
                raise CommandFailed(f"topic {topic}, to which query {sink.sink.query} writes, is gone")
        wanted = (FINAL, TENTATIVE, CLOSING) if tentative else (FINAL,)

        ours = {topic: RowsOf(plan.job, plan.generation, sink.sink.query) for topic, sink in sinks.items()}

        def rows(topics: list[str]) -> Iterator[bytes]:
            present = {topic: door.present[topic] for topic in topics}
            for home, message in read_topics(door.log, present, follow=follow, until_idle_s=until_idle):
                if ours[home.topic].status(message.headers()) not in wanted:
                    continue
                for row in rows_of(sinks[home.topic], message.value()):
                    yield _with_meta(row, home.index, message, keyed=tentative) if meta or tentative else row

        waits = follow or until_idle is not None  # for all topics at once; else one is read after the other
        shown = chain.from_iterable(map(rows, [[*sinks]] if waits else [[topic] for topic in sinks]))
        for row in islice(shown, limit):
            print_raw(row)
        read_progress(door, view, plan)
        if late := view.late_dropped(plan):
            note(f"note: {dropped_as_late(late)}: the rows lack them")
            if why := why_late(view.leap(plan)):
                note(f"note: {why}")


def _with_meta(row: bytes, partition: int, message: Message, *, keyed: bool) -> bytes:
    """A row with its metadata, as JSON.

    keyed: true to add the record's key and fidelity; a record without a value always gets its key.
    """
    import msgspec

    from holdfast.newest import share
    from holdfast.services.view.rows import with_meta

    shown, headers = with_meta(row, partition, message), dict(message.headers() or ())
    if keyed or message.value() is None:
        shown["key"] = (message.key() or b"").decode(errors="replace")
        if "fidelity" in headers:
            shown["fidelity"] = share(headers["fidelity"])
    return msgspec.json.encode(shown)
