"""Commands that look at a cluster: list, status, units, workers, events."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.options import DataDir, JobName, Json, KafkaAt
from services.cli.terminal import coloured, print_json, print_table, say
from services.kernel.errors import FAILED, CommandFailed
from services.view.losses import dropped_as_late

if TYPE_CHECKING:
    from rich.text import Text

    from schemas.events import Event
    from schemas.plans import QueryState
    from services.view.lines import JobStatus, UnitLine

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Continue with what comes, until Ctrl-C.")]


def list_jobs(
    every: Annotated[bool, typer.Option("--all", "-a", help="Also jobs that have ended or were rejected.")] = False,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """List jobs."""
    import msgspec

    from services.cli.whereabouts import connected
    from services.view.cluster import OVER
    from services.view.protection import said
    from services.view.reading import read_all

    now_ms = int(time.time() * 1000)
    with connected(data_dir, kafka) as door:
        view = read_all(door)
    found = [job for job in view.jobs() if every or job.state not in OVER]
    jobs = [msgspec.structs.replace(job, unprotected=view.unprotected(job, now_ms)) for job in found]
    if as_json:
        print_json(jobs)
        return
    rows = [
        (
            job.job, job.generation, coloured(job.state), _when(job.since_ms), f"{job.available}/{job.units}",
            "; ".join(said(job.unprotected, job.units)) or "", job.error,
        )
        for job in jobs
    ]  # fmt: skip
    empty = "no job runs" if not every else "there never was a job"
    print_table(("job", "generation", "state", "since", "units up", "protection", "error"), rows, empty=empty)


def status(job: JobName, data_dir: DataDir = None, kafka: KafkaAt = None, as_json: Json = False) -> None:
    """Show how far a job is, unit by unit: batches, watermarks, records, late, dead, lost.

    Exits with 1 if the job has failed, and says why and since when.
    """
    from services.cli.whereabouts import connected
    from services.view.reading import named_job, read_all, read_progress

    with connected(data_dir, kafka) as door:
        view = read_all(door)
        line = named_job(view, job)
        plan = view.plan(line.generation)
        if plan is not None:
            read_progress(door, view, plan)
    found = view.status(line, int(time.time() * 1000))
    if as_json:
        print_json(found)
    else:
        _draw_status(found)
    if found.state == "failed":
        raise typer.Exit(FAILED)


def _when(time_ms: int) -> str | None:
    """Time of day here; None if it is not known."""
    return datetime.fromtimestamp(time_ms / 1000).strftime("%Y-%m-%d %H:%M:%S") if time_ms else None


def _available(query: QueryState) -> Text:
    state: Text = coloured("available" if query.available else "unavailable")
    return state


def _draw_status(found: JobStatus) -> None:
    from rich.text import Text

    from services.cli.terminal import console
    from services.view.protection import said

    since = f" since {_when(found.since_ms)}" if found.since_ms else ""
    console().print(Text(f"job {found.job} ({found.generation}) is "), coloured(found.state), Text(since), sep="")
    if found.state == "failed":
        say(f"cause: {found.error}")
    if found.checkpoint is not None:
        say(f"checkpoints: {found.checkpoint}")
    columns = ("unit", "worker", "state", "processed", "acked", "watermark", "records", "late", "dead", "lost", "error")
    rows = [
        (
            unit.unit, unit.worker, coloured(unit.state), unit.processed, unit.acked, unit.watermark, unit.records,
            unit.late, unit.dead, unit.lost, unit.error,
        )
        for unit in found.units
    ]  # fmt: skip
    if rows:
        print_table(columns, rows)
    if found.queries:
        heads = ("query", "state", "since", "latency ms", "before ms", "relative")
        states = [
            (query.query, _available(query), _when(query.since_ms), query.latency_ms, query.before_ms, query.relative)
            for query in found.queries
        ]
        print_table(heads, states)
    for unit in found.units:
        if unit.versions:
            say(f"{unit.unit}: {unit.versions}")
    say(f"{found.records:,} records taken in; {found.dead:,} dead, {found.lost:,} lost")
    if found.late_by_stream:
        say(dropped_as_late(found.late_by_stream))
    for topic, count in found.refused.items():
        say(f"{count:,} records of {topic} refused: `holdfast events` says which, and why")
    for line in said(found.unprotected, len(found.units)):
        say(line)
    if found.unserved:
        why = "every worker that could take one holds as many as it may (HOLDFAST_STANDBYS)"
        say(f"no place for a standby of {', '.join(found.unserved)}: {why}")
    for risk in found.retention:
        say(f"retention: {risk}")
    if found.skipped:
        say(f"{found.skipped:,} records skipped by `holdfast repair`")
    for problem in found.problems:
        say(f"problem: {problem['path']}: {problem['message']}" + (f" ({problem['hint']})" if problem["hint"] else ""))
    for warning in found.warnings:
        say(f"warning: {warning}")
    if found.error and found.state != "failed":
        say(f"error: {found.error}")


def units(
    job: JobName,
    costs: Annotated[
        bool,
        typer.Option("--costs", help="Load, state, checkpoints and phases of each copy; rates of each edge."),
    ] = False,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Show who runs what of a job, with which flags; or what it costs."""
    from services.cli.costs import draw_costs
    from services.cli.whereabouts import connected
    from services.view.reading import named_job, read_all, read_progress

    with connected(data_dir, kafka) as door:
        view = read_all(door)
        plan = view.plan(named_job(view, job).generation)
        if plan is None:
            raise CommandFailed(f"job {job} has no units: it was not admitted", f"`holdfast status {job}` says why")
        read_progress(door, view, plan)
    found = view.units(plan)
    if costs:
        spent = view.costs(plan)
        print_json(spent) if as_json else draw_costs(spent)
    elif as_json:
        print_json(found)
    else:
        columns = ("unit", "tasks", "scheme", "checkpoints", "epoch", "role", "worker", "state", "batch", "flags")
        print_table(columns, _unit_rows(found))


def _unit_rows(found: Sequence[UnitLine]) -> Iterator[Sequence[object]]:
    for unit in found:
        scheme = f"{unit.scheme}, adaptive" if unit.adaptive else unit.scheme
        own = (unit.unit, ", ".join(unit.tasks), scheme, unit.policy, unit.epoch)
        if not unit.copies:
            yield (*own, "-", "-", coloured("down"), None, "")
        for copy in unit.copies:
            flags = " ".join(name for name, on in copy.flags.items() if on is True)
            yield (*own, copy.role, copy.worker, coloured(copy.state), copy.batch, flags)


def workers(data_dir: DataDir = None, kafka: KafkaAt = None, as_json: Json = False) -> None:
    """List the workers heard of in the last minute."""
    from services.cli.whereabouts import connected
    from services.view.reading import read_all

    with connected(data_dir, kafka) as door:
        found = read_all(door).workers(int(time.time() * 1000))
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one.worker, str(one.pid), one.host, one.zone, coloured(one.state), f"{one.copies}/{one.slots}",
            f"{one.cpu_s:.1f}", f"{one.rss_bytes >> 20:,}", f"{one.address} {one.turn}".strip(),
        )
        for one in found
    ]  # fmt: skip
    columns = ("worker", "process", "host", "zone", "state", "copies/slots", "CPU s", "MiB", "address")
    print_table(columns, rows, empty="no worker was heard of in the last minute")


def events(
    follow: Follow = False,
    job: Annotated[str | None, typer.Option("--job", help="Only of this job.", show_default=False)] = None,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Show what happened, oldest first, with times split into detection, activation, replay."""
    import msgspec

    from schemas.events import decode
    from services.cli.whereabouts import connected
    from services.node.readiness import NO_JOB
    from services.view.tailing import read_topic

    with connected(data_dir, kafka) as door:
        for _, message in read_topic(door.log, door.topics.events, 1, follow=follow):
            try:
                event = decode(message.value() or b"")
            except msgspec.DecodeError:
                continue
            if job in (None, event.job) and not event.job.startswith(NO_JOB):
                print_json(event) if as_json else say(_event_line(event))


def _event_line(event: Event) -> str:
    at = datetime.fromtimestamp(event.time_ms / 1000).strftime("%H:%M:%S.%f")[:-3]
    where = " ".join(filter(None, (event.job, event.unit, event.worker)))
    phases = ", ".join(f"{phase} {ms:.0f} ms" for phase, ms in event.phases_ms.items())
    epoch = f"epoch {event.epoch}" if event.epoch >= 0 else ""
    return f"{at}  {event.kind:<20} {'  '.join(filter(None, (where, epoch, event.detail, phases)))}".rstrip()
