"""Commands that carry a job's positions and state over: `savepoint` to a directory, `update` to its next generation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.carrying_options import DropState, Renamed, Reread, carrying
from holdfast.services.cli.options import DataDir, JobName, Json, KafkaAt
from holdfast.services.cli.terminal import note, print_json, print_table, say, waiting
from holdfast.services.kernel.errors import USAGE, CommandFailed

if TYPE_CHECKING:
    from holdfast.schemas.plans import Plan
    from holdfast.services.client.places import StorePlace
    from holdfast.services.client.savepoints import Saved
    from holdfast.services.planning.carried_state import Carried
    from holdfast.services.view.door import Door
    from holdfast.services.view.lines import JobLine

KEPT = 24
"""Default number of backups kept."""


def savepoint(
    job: JobName,
    path: Annotated[str, typer.Argument(metavar="DIR", help="The directory to write, or its URL; it must not exist.")],
    every: Annotated[
        float | None, typer.Option("--every", min=1.0, help="Seconds: one into DIR so often, until Ctrl-C.")
    ] = None,
    keep: Annotated[int | None, typer.Option("--keep", min=1, help="With --every: so many stay. [default: 24]")] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds to wait for the checkpoints of one batch.")
    ] = 60.0,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Write a job's positions and state, as of one batch, to a directory; `submit --from DIR` begins there.

    The job is paused at that batch while its state is read, and continues then; the command says for how long it took
    nothing in. A job that is paused already stays so: then its sinks hold exactly what the savepoint has.

    With `--every` DIR is a folder of backups, each named by its time, of which the newest are kept.

    DIR may be a URL, such as s3://bucket/flights: fsspec and the package of its protocol reach it.
    """
    from holdfast.services.client.places import place_of

    place = place_of(path)
    if every is not None:
        _back_up(job, place, every, keep or KEPT, timeout, data_dir, kafka, as_json)
        return
    if keep is not None:
        raise CommandFailed("--keep stands without --every", "say how often, such as --every 3600", USAGE)

    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client.savepoints import save

    with connected(data_dir, kafka) as door, waiting(f"savepoint of {job} ...", quiet=as_json):
        _, plan = _running(door, job)
        saved = save(door, plan, place, timeout)
    _say_saved(place, saved, as_json)


def _back_up(
    job: str, folder: Path | StorePlace, every: float, keep: int, timeout: float, data_dir: Path | None,
    kafka: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Each looks for the job again: it may have been updated meanwhile, and the cluster may have been down."""
    import time

    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client.backups import Schedule, back_up
    from holdfast.services.client.savepoints import save

    def take(path: Path | StorePlace) -> Saved:
        with connected(data_dir, kafka) as door:
            return save(door, _running(door, job)[1], path, timeout)

    for one in back_up(folder, Schedule(every, keep), take, time.time, time.sleep):
        if one.saved is None:
            note(f"warning: no backup {one.path}: {one.trouble}")
            continue
        _say_saved(one.path, one.saved, as_json)
        if one.trouble:
            note(f"warning: {one.trouble}")
        for gone in one.deleted:
            note(f"deleted {gone}")


def _say_saved(path: Path | StorePlace, saved: Saved, as_json: bool) -> None:
    from holdfast.services.kernel.plurals import plural

    found = saved.manifest
    if as_json:
        print_json(
            {"job": found.job, "generation": found.generation, "path": str(path), "id": found.id, "batch": found.batch,
             "entries": saved.entries, "bytes": saved.bytes, "silence_s": saved.silence_s}
        )  # fmt: skip
        return
    how = "it is paused, as it was" if saved.silence_s is None else f"it took nothing in for {saved.silence_s:.1f} s"
    say(f"job {found.job} as of batch {found.batch:,}: {plural(saved.entries, 'entry', 'entries')} in {path}; {how}")


def update(
    job: JobName,
    file: Annotated[
        Path | None, typer.Argument(metavar="JOB.yaml", help="The job file as it is to be, or a job in Python.")
    ] = None,
    back: Annotated[bool, typer.Option("--back", help="Take the file of the generation that was replaced.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is kept, and what is not and why.")] = False,
    drop_state: DropState = None,
    reread: Reread = None,
    renamed: Renamed = None,
    proven_after: Annotated[
        int,
        typer.Option("--proven-after", min=0, metavar="BATCHES", help="With so many --back returns no more; 0: ever."),
    ] = 0,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait.")] = 120.0,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Replace a job that runs by a changed one, with its positions and its state: no row is lost or doubled.

    The job is held at one batch while its state is carried over; then it ends, and the next one begins behind that
    batch. If the cluster refuses the new job, the former one continues. `--dry-run` says what is kept and changes
    nothing. `--back` undoes the last update in the same way: what was delivered since stays, and counts. It does so
    until the update has processed as many batches as `--proven-after` said; `holdfast status` counts them.
    """
    from msgspec import structs

    from holdfast.services.cli.jobs import refuse
    from holdfast.services.cli.whereabouts import allowed, connected, patience_with
    from holdfast.services.client.job_files import read_job
    from holdfast.services.client.planned_job import plan as planned
    from holdfast.services.client.registration import with_schemas
    from holdfast.services.client.update import undone
    from holdfast.services.client.update import update as run
    from holdfast.services.kernel.errors import JobRejected
    from holdfast.services.kernel.plurals import plural
    from holdfast.services.log.kafka.registry import open_registry
    from holdfast.services.planning.carried_state import carried, problems
    from holdfast.services.planning.loader import interpret

    start = structs.replace(carrying(drop_state, reread, renamed), proven_after=proven_after)
    if back == (file is not None):
        raise CommandFailed("name the new job file, or say --back", "`holdfast update --help`", USAGE)
    try:
        read = None if file is None else read_job(file, lambda: patience_with(data_dir, kafka))
        with connected(data_dir, kafka) as door, waiting(f"update of {job} ...", quiet=as_json):
            line, old = _running(door, job)
            if read is None:
                former, start = undone(door, old, start)
                raw, spec = former.spec, interpret(former.spec)
            else:
                raw, spec = read.raw, read.spec
            if spec.name != line.job:
                hint = "`holdfast savepoint`, then `holdfast submit --from`, begins a job of another name"
                raise CommandFailed(f"{file} is job {spec.name}, not {line.job}", hint, USAGE)
            new = planned(spec, door.present, door.topics.prefix, allowed(spec, data_dir))
            fates, wrong = carried(old, new, start), tuple(problems(old, new, start))
            if dry_run and not (wrong and as_json):
                _show(line, fates, as_json)
            if wrong:
                raise JobRejected(wrong)
            if dry_run:
                return
            raw = with_schemas(raw, spec, lambda: new, open_registry, lambda: patience_with(data_dir, kafka))
            done = run(door, old, raw, start, timeout)
    except JobRejected as rejected:
        refuse(str(file or f"the former {job}"), rejected.problems, as_json)
        return
    if as_json:
        print_json(
            {"job": line.job, "generation": done.submitted.generation, "replaced": line.generation, "batch": done.batch,
             "entries": done.entries, "took_s": round(done.took_s, 3), "operators": _plain(fates)}
        )  # fmt: skip
        return
    kept = plural(done.entries, "entry", "entries")
    rests = f"is paused, as before: `holdfast resume {line.job}`"
    took = rests if done.submitted.status.state == "paused" else f"took nothing in for {done.took_s:.1f} s"
    say(
        f"job {line.job} runs as {done.submitted.generation}, behind batch {done.batch:,} of {line.generation}, with "
        f"{kept} of state; it {took}"
    )
    for warning in done.submitted.status.warnings:
        note(f"warning: {warning}")


def _running(door: Door, job: str) -> tuple[JobLine, Plan]:
    from holdfast.services.view.cluster import OVER
    from holdfast.services.view.reader import named_job, read_jobs

    view = read_jobs(door)
    line = named_job(view, job)
    plan = view.plan(line.generation)
    if plan is None or line.state in OVER:
        raise CommandFailed(f"job {job} does not run, so it has no state", f"`holdfast status {job}` says why")
    return line, plan


def _show(line: JobLine, fates: list[Carried], as_json: bool) -> None:
    if as_json:
        print_json({"job": line.job, "generation": line.generation, "operators": _plain(fates)})
        return
    print_table(("operator", "", "why"), [(one.name, one.fate.value, one.why) for one in fates])


def _plain(fates: list[Carried]) -> list[dict[str, str]]:
    return [{"operator": one.name, "fate": one.fate.value, "why": one.why} for one in fates]
