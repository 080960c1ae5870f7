"""Commands that show a cluster: list, status, units, workers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.services.cli.options import DataDir, JobName, Json, KafkaAt
from holdfast.services.cli.terminal import coloured, drawn, print_json, print_table, show
from holdfast.services.kernel.errors import FAILED, CommandFailed
from holdfast.services.kernel.plurals import plural
from holdfast.services.view.losses import dropped_as_late, why_late

if TYPE_CHECKING:
    from holdfast.services.view.lines import JobStatus, UnitLine
    from holdfast.services.view.pipelines import PipelineLine


def list_jobs(
    every: Annotated[bool, typer.Option("--all", "-a", help="Also jobs that have ended or were rejected.")] = False,
    graph: Annotated[bool, typer.Option("--graph", help="Which job reads what another one delivers.")] = False,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """List jobs."""
    import msgspec

    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.view.cluster import OVER
    from holdfast.services.view.pipelines import pipelines
    from holdfast.services.view.protection import said
    from holdfast.services.view.reader import read_all, read_progress

    now_ms = int(time.time() * 1000)
    with connected(data_dir, kafka) as door:
        view = read_all(door)
        for job in view.jobs() if graph else ():
            if job.state not in OVER and (plan := view.plan(job.generation)) is not None:
                read_progress(door, view, plan)
    found = [job for job in view.jobs() if every or job.state not in OVER]
    empty = "no job runs" if not every else "there never was a job"
    if graph:
        _show_pipelines(pipelines(view, found, now_ms), empty, as_json)
        return
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
    print_table(("job", "generation", "state", "since", "units up", "protection", "error"), rows, empty=empty)


def _show_pipelines(jobs: Sequence[PipelineLine], empty: str, as_json: bool) -> None:
    from holdfast.services.view.pipelines import tree

    if as_json:
        print_json(jobs)
    else:
        show(tree(jobs) if jobs else [empty])


def status(job: JobName, data_dir: DataDir = None, kafka: KafkaAt = None, as_json: Json = False) -> None:
    """Show how far a job is, unit by unit: batches, watermarks, records, late, dead, lost.

    Also says which units nothing protects, and why, and the last failure of a worker that struck the job. Exits with 1
    if the job has failed, and says why and since when. `holdfast watch JOB` keeps this on the screen.
    """
    from holdfast.services.cli.events import failures_of
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.view.reader import named_job, read_all, read_progress

    with connected(data_dir, kafka) as door:
        view = read_all(door)
        line = named_job(view, job)
        plan = view.plan(line.generation)
        if plan is not None:
            read_progress(door, view, plan)
        failures = "" if as_json else failures_of(door, line.job)
    found = view.status(line, int(time.time() * 1000))
    if as_json:
        print_json(found)
    else:
        show([*status_parts(found), *([failures] if failures else [])])
    if found.state == "failed":
        raise typer.Exit(FAILED)


def _when(time_ms: int) -> str | None:
    """Local time of day; None if the time is not known."""
    return datetime.fromtimestamp(time_ms / 1000).strftime("%Y-%m-%d %H:%M:%S") if time_ms else None


def status_parts(found: JobStatus) -> Iterator[Any]:
    """Tables and lines of `status`."""
    from rich.text import Text

    from holdfast.services.view.protection import said

    since = f" since {_when(found.since_ms)}" if found.since_ms else ""
    yield Text.assemble(f"job {found.job} ({found.generation}) is ", coloured(found.state), since)
    if found.state == "failed":
        yield f"cause: {found.error}"
    yield from said(found.unprotected, len(found.units))
    if found.checkpoint is not None:
        yield f"checkpoints: {found.checkpoint}"
    if found.trial is not None:
        back = "" if found.trial.over else f"; `holdfast update {found.job} --back` returns"
        yield f"update: {found.trial}{back}"
    columns = ("unit", "worker", "state", "processed", "acked", "watermark", "records", "late", "dead", "lost")
    rows = [
        (
            unit.unit, unit.worker, coloured(unit.state), unit.processed, unit.acked, _short(unit.watermark),
            unit.records, unit.late, unit.dead, unit.lost,
        )
        for unit in found.units
    ]  # fmt: skip
    if rows:
        yield drawn(columns, rows)
    if found.queries:
        heads = ("query", "state", "since", "latency ms", "before ms", "relative")
        states = [
            (one.query, coloured(found.state_of(one)), _when(one.since_ms), one.latency_ms, one.before_ms, one.relative)
            for one in found.queries
        ]
        yield drawn(heads, states)
    yield from _status_lines(found)


def _status_lines(found: JobStatus) -> Iterator[str]:
    for unit in found.units:
        if unit.error:
            yield f"{unit.unit}: {unit.error}"
        if unit.versions:
            yield f"{unit.unit}: {unit.versions}"
    yield f"{plural(found.records, 'record')} taken in; {found.dead:,} dead, {found.lost:,} lost"
    if found.late_by_stream:
        yield dropped_as_late(found.late_by_stream)
    if found.late and (why := why_late(found.leap)):
        yield why
    for topic, count in found.refused.items():
        yield f"{plural(count, 'record')} of {topic} refused: `holdfast events --all` says which, and why"
    if found.unserved:
        why = "every worker that could take one holds as many as it may (HOLDFAST_STANDBYS)"
        yield f"no place for a standby of {', '.join(found.unserved)}: {why}"
    if found.out:
        shares = ", ".join(f"{query} {share:.0%}" for query, share in found.fidelity.items())
        yield f"out, and not recovered yet: {', '.join(found.out)}; the others give, of all rows: {shares}"
    for query, open in found.tentative.items():
        yield f"{query}: {plural(open.rows, 'tentative row')} to be corrected, fidelity {open.fidelity:.0%}"
    for query, rows in found.corrected.items():
        yield f"{query}: {plural(rows, 'tentative row')} corrected"
    for risk in found.retention:
        yield f"retention: {risk}"
    if found.skipped:
        yield f"{plural(found.skipped, 'record')} skipped by `holdfast repair`"
    for problem in found.problems:
        yield f"problem: {problem['path']}: {problem['message']}" + (f" ({problem['hint']})" if problem["hint"] else "")
    for warning in found.warnings:
        yield f"warning: {warning}"
    if found.error and found.state != "failed":
        yield f"error: {found.error}"


def _short(watermark: str | None) -> str | None:
    """A watermark to the second; words in its place are unchanged."""
    return watermark if watermark is None or "T" not in watermark else watermark[:19].replace("T", " ")


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
    from holdfast.services.cli.costs import draw_costs
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.view.reader import named_job, read_all, read_progress

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
        show(unit_tables(found))


def unit_tables(found: Sequence[UnitLine]) -> Iterator[Any]:
    """Two tables of `units`: together they would be wider than most screens."""
    heads = ("unit", "tasks", "scheme", "checkpoints", "epoch")
    yield drawn(heads, [(one.unit, ", ".join(one.tasks), _scheme(one), one.policy, one.epoch) for one in found])
    yield drawn(("unit", "role", "worker", "state", "batch", "flags"), _copy_rows(found))


def _scheme(unit: UnitLine) -> str:
    return f"{unit.scheme}, adaptive" if unit.adaptive else unit.scheme


def _copy_rows(found: Sequence[UnitLine]) -> Iterator[Sequence[object]]:
    for unit in found:
        if not unit.copies:
            yield (unit.unit, "-", "-", coloured("down"), None, "")
        for copy in unit.copies:
            flags = " ".join(name for name, on in copy.flags.items() if on is True)
            yield (unit.unit, copy.role, copy.worker, coloured(copy.state), copy.batch, flags)


def workers(data_dir: DataDir = None, kafka: KafkaAt = None, as_json: Json = False) -> None:
    """List the workers heard of in the last minute."""
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.view.reader import read_all

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
