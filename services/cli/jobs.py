"""Commands that change jobs: check (which only reads), submit, cancel, pause, resume, scheme, move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.services.cli.carrying_options import DropState, Renamed, Reread, carrying
from holdfast.services.cli.options import CreateTopics, DataDir, JobName, Json, KafkaAt, Partitions
from holdfast.services.cli.terminal import note, print_json, print_plain, print_table, say, waiting
from holdfast.services.kernel.errors import USAGE, CommandFailed

if TYPE_CHECKING:
    from holdfast.schemas import savepoints
    from holdfast.schemas.plans import Plan, Problem
    from holdfast.services.view.door import Door
    from holdfast.services.view.lines import JobLine

File = Annotated[
    Path, typer.Argument(metavar="JOB.yaml", help="The job file, YAML or JSON, or a job in Python: my_jobs.py:flights.")
]


class Start(Enum):
    """Place in a topic at which reading starts."""

    EARLIEST = "earliest"
    LATEST = "latest"


Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait.")]


def check(file: File, data_dir: DataDir = None, kafka: KafkaAt = None, as_json: Json = False) -> None:
    """Say what is wrong with a job file, or show its plan. Nothing is started; no cluster is needed."""
    from holdfast.services.cli.whereabouts import allowed, patience_with
    from holdfast.services.client.job_files import read_job
    from holdfast.services.client.planning import plan
    from holdfast.services.kernel.errors import JobRejected
    from holdfast.services.planning.rendering import became

    try:
        job = read_job(file, lambda: patience_with(data_dir, kafka))
        present, prefix = _cluster_topics(data_dir, kafka)
        found = plan(job.spec, present, prefix, allowed(job.spec, data_dir))
        _show(found, prefix, present is not None, as_json, became(job.spec, found))
    except JobRejected as rejected:
        refuse(str(file), rejected.problems, as_json)


def _cluster_topics(data_dir: Path | None, kafka: str | None) -> tuple[dict[str, int] | None, str]:
    """Partitions by topic, and the prefix; None for the topics where no cluster is named and none runs."""
    from holdfast.services.cli.whereabouts import connected, find, load_settings

    try:
        find(data_dir, kafka)
    except CommandFailed:
        return None, load_settings(data_dir).cluster
    with connected(data_dir, kafka, any_kafka=True) as door:
        return door.present, door.topics.prefix


def _show(plan: Plan, prefix: str, on_cluster: bool, as_json: bool, became: Mapping[str, Mapping[str, Any]]) -> None:
    """Prints a plan.

    became: operators that replace each query in SQL.
    """
    from holdfast.schemas.topics import JobTopics
    from holdfast.services.planning.rendering import sections, summary, written_out

    topics = JobTopics(prefix, plan.job, plan.generation)
    if as_json:
        print_json({**summary(plan, topics), "sql": became, "problems": [], "cluster": on_cluster})
        return
    for section in (*sections(plan, topics), written_out(became)):
        if section.rows:
            print_table(section.columns, section.rows, title=section.title)
    if _has_rows_without_seal(plan):
        note("Spark reads or writes rows of this job by itself, so those have no seal: a stranger's would count")
    say(f"job {plan.job} is all right" + ("" if on_cluster else "; no cluster runs, so topics were not looked at"))


def _has_rows_without_seal(plan: Plan) -> bool:
    """True if Spark's own reader and writer of rows know nothing of the seal of the cluster's secret."""
    from holdfast.schemas.plans import REAL_TIME
    from holdfast.services.log.seal.secret import keyring

    return any(one.every_writer or one.mode == REAL_TIME for one in plan.spark) and keyring() is not None


def refuse(name: str, problems: tuple[Problem, ...], as_json: bool) -> None:
    from holdfast.services.client.submitting import problem_lines
    from holdfast.services.kernel.plurals import plural

    if as_json:
        print_json({"job": None, "state": "rejected", "problems": problem_lines(problems)})
    else:
        for one in problems:  # a table would fold a hint, which is often a command to copy
            print_plain(f"{one.path}: {one.message}" + (f"\n    {one.hint}" if one.hint else ""))
    raise CommandFailed(f"{name} has {plural(len(problems), 'problem')}, nothing was started", code=USAGE)


def submit(
    file: File,
    create_topics: CreateTopics = False,
    partitions: Partitions = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0.1, help="Seconds to wait; default: 60, for each operator on Spark 240 more."),
    ] = None,
    savepoint: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="DIR", help="Begin with a savepoint, its directory or URL: its positions and its state."
        ),
    ] = None,
    drop_state: DropState = None,
    reread: Reread = None,
    renamed: Renamed = None,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Start a job; returns when it runs, or says why it does not."""
    from holdfast.services.cli.whereabouts import allowed, connected, patience_with
    from holdfast.services.client import submitting
    from holdfast.services.client.job_files import read_job
    from holdfast.services.client.planning import missing_topics, plan
    from holdfast.services.client.registering import with_schemas
    from holdfast.services.kernel.errors import JobRejected
    from holdfast.services.kernel.plurals import plural
    from holdfast.services.log.kafka.registry import open_registry
    from holdfast.services.view.protection import said

    try:
        job = read_job(file, lambda: patience_with(data_dir, kafka))
        spark, starting = submitting.on_spark(job.spec), f"starting job {job.spec.name} ..."
        with connected(data_dir, kafka) as door, waiting(starting, quiet=as_json) as report:
            if create_topics:
                allow = allowed(job.spec, data_dir)
                door.log.create(missing_topics(job.spec, door.present, door.topics.prefix, allow, partitions))
            raw = with_schemas(
                job.raw,
                job.spec,
                lambda: plan(job.spec, None, door.topics.prefix, allowed(job.spec, data_dir)),
                open_registry,
                lambda: patience_with(data_dir, kafka),
            )
            patience_s = timeout or submitting.patience_s(spark)
            with _begun(door, raw, savepoint, carrying(drop_state, reread, renamed)):
                done = submitting.submit(door, raw, patience_s, report if spark else lambda how_far: None)
            warnings = [*done.status.warnings, *submitting.sink_warnings(door, done.generation)]
            unprotected = submitting.unprotected(door, done.generation)
    except JobRejected as rejected:
        refuse(str(file), rejected.problems, as_json)
        return
    if as_json:
        print_json(
            {"job": done.job, "generation": done.generation, "state": "running", "units": done.status.units,
             "warnings": warnings, "unprotected": unprotected}
        )  # fmt: skip
        return
    for warning in warnings:
        note(f"warning: {warning}")
    say(f"job {done.job} runs as {done.generation} in {plural(done.status.units, 'unit')}")
    for line in said(unprotected, done.status.units):
        say(line)


@contextmanager
def _begun(door: Door, raw: dict[str, Any], savepoint: str | None, how: savepoints.Start) -> Iterator[None]:
    """Adds a savepoint, if one is named, to the job; a savepoint of a refused job is deleted from the cluster."""
    from holdfast.services.kernel.errors import JobRejected

    if savepoint is None:
        if how.drop_state or how.reread or how.renamed:
            message = "--drop-state, --reread and --renamed concern a savepoint"
            raise CommandFailed(message, "name it: --from DIR", USAGE)
        yield
        return
    from holdfast.services.client.places import place_of
    from holdfast.services.client.saving import begin_with

    start = begin_with(door, raw, place_of(savepoint), how)
    try:
        yield
    except JobRejected:
        door.log.delete([start.topic])
        raise


def cancel(
    job: JobName,
    drain: Annotated[bool, typer.Option("--drain", help="Run out what is there, close every window, deliver.")] = False,
    timeout: Timeout = 300.0,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """End a job: at once, or with --drain after everything up to now is delivered. Returns when it has ended."""
    _command("drain" if drain else "cancel", job, timeout, "ended", data_dir, kafka, as_json)


def pause(
    job: JobName, timeout: Timeout = 60.0, data_dir: DataDir = None, kafka: KafkaAt = None, as_json: Json = False
) -> None:
    """Stop taking records in; what was taken in is finished."""
    _command("pause", job, timeout, "paused", data_dir, kafka, as_json)


def resume(
    job: JobName,
    start: Annotated[
        Start | None,
        typer.Option(
            "--from",
            help="Where to begin with a source's topic that was deleted and created again: earliest or latest.",
            show_default=False,
        ),
    ] = None,
    timeout: Timeout = 60.0,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Continue after a pause, or with a source's topic that was created again."""
    _command("resume", job, timeout, "running", data_dir, kafka, as_json, "" if start is None else start.value)


def scheme(
    job: JobName,
    unit: Annotated[str, typer.Argument(help="A unit, such as count-0; `holdfast units JOB` lists them.")],
    wanted: Annotated[str, typer.Argument(metavar="SCHEME", help="none, passive, deployed, passive-cold, ...")],
    timeout: Timeout = 60.0,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Change the fault-tolerance scheme of a unit while it runs. Returns once the change is decided."""
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client import submitting
    from holdfast.services.planning.available import SCHEMES
    from holdfast.services.view.reading import named_job, read_jobs

    if wanted not in SCHEMES:
        raise typer.BadParameter(f"there is no scheme '{wanted}': one of {', '.join(sorted(SCHEMES))}")
    with connected(data_dir, kafka) as door, waiting(f"{unit} to {wanted} ...", quiet=as_json):
        view = read_jobs(door)
        line = named_job(view, job)
        _check_runs(line)
        plan = view.plan(line.generation)
        names = [] if plan is None else [one.name for one in plan.units]
        if unit not in names:
            raise typer.BadParameter(f"job {job} has no unit '{unit}': one of {', '.join(names)}")
        submitting.change_scheme(door, line, unit, wanted, timeout)
    _print({"job": line.job, "generation": line.generation, "state": f"running, {unit} under {wanted}"}, as_json)


def move(
    job: JobName,
    unit: Annotated[str, typer.Argument(help="A unit, such as count-0; `holdfast units JOB` lists them.")],
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="Where it is to run; `holdfast workers` lists them.")],
    timeout: Timeout = 90.0,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Move a unit to another worker while it runs, without an outage.

    A copy on that worker catches up beside the one that runs, then takes over: output pauses for a tenth of a second,
    and no row is lost or doubled. A standby stays where it is, or the former copy becomes one, as the unit's scheme
    says. A unit on Spark stops and starts its query instead, which takes seconds. Returns when the unit runs there, or
    says why it does not. `holdfast events` shows each step. SIGTERM to a worker moves every unit that it runs.
    """
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client.moving import move_unit, placed

    with connected(data_dir, kafka) as door, waiting(f"{unit} to {worker} ...", quiet=as_json):
        line, former = placed(door, job, unit, worker)
        moved = None if former == worker else move_unit(door, line, unit, worker, timeout)
    if as_json:
        print_json(
            {"job": line.job, "generation": line.generation, "unit": unit, "from": former, "worker": worker,
             "moved": moved is not None, "move_ms": moved and moved.took_ms, "silence_ms": moved and moved.silence_ms}
        )  # fmt: skip
    elif moved is None:
        say(f"{unit} runs on {worker} already")
    else:
        silence = "" if moved.silence_ms is None else f", output paused for {moved.silence_ms:.0f} ms"
        say(f"{unit} runs on {worker} now, and no longer on {former}: {moved.took_ms:.0f} ms{silence}")


def accept(
    job: JobName,
    timeout: Timeout = 60.0,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Let the versions lead that the job's workers have now, though they have not shown that they give equal bytes.

    For a job whose workers were all replaced at once, so that none is left to compare with; `holdfast status` says so.
    From here on rows may be computed otherwise than before. Without this the job waits for a worker as it was.
    """
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client import submitting
    from holdfast.services.view.reading import named_job, read_jobs

    with connected(data_dir, kafka) as door, waiting(f"versions of {job} ...", quiet=as_json):
        view = read_jobs(door)
        line = named_job(view, job)
        _check_runs(line)
        plan = view.plan(line.generation)
        found = {} if plan is None else submitting.accept_versions(door, line, plan, timeout)
    if as_json:
        print_json({"job": line.job, "generation": line.generation, "versions": found})
        return
    for unit, versions in found.items():
        say(f"{unit} may be led with {'; or with '.join(versions) or 'any versions'}")


def _command(
    kind: str,
    name: str,
    timeout: float,
    state: str,
    data_dir: Path | None,
    kafka: str | None,
    as_json: bool,
    start: str = "",
) -> None:
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client import submitting
    from holdfast.services.view.losses import dropped_as_late, once_each, why_late
    from holdfast.services.view.reading import named_job, read_jobs

    with connected(data_dir, kafka) as door, waiting(f"{kind} of {name} ...", quiet=as_json):
        job = named_job(read_jobs(door), name)
        _check_runs(job)
        ended = None if job.state == state else submitting.command(door, kind, job, timeout, start)
    done: dict[str, Any] = {"job": job.job, "generation": job.generation, "state": state}
    late = {} if ended is None else ended.late_dropped
    counts = {"late_dropped": once_each(late).by_source, "late_by_stream": late} if late else {}
    _print(done | counts, as_json)
    if late and not as_json:
        note(f"note: {dropped_as_late(late)}: the rows lack them")
        if ended is not None and (why := why_late(ended.leap)):
            note(f"note: {why}")


def _check_runs(job: JobLine) -> None:
    from holdfast.services.view.cluster import OVER

    if job.state in OVER:
        raise CommandFailed(
            f"job {job.job} has {job.state} already" if job.state == "ended" else f"job {job.job} was rejected"
        )


def _print(done: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        say(f"job {done['job']} {'has ended' if done['state'] == 'ended' else 'is ' + done['state']}")
