"""Commands that change jobs that run: cancel, pause, resume, scheme, move, accept."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.services.cli.options import DataDir, JobName, Json, KafkaAt
from holdfast.services.cli.terminal import note, print_json, say, waiting


class Start(Enum):
    """Place in a topic at which reading starts."""

    EARLIEST = "earliest"
    LATEST = "latest"


Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait.")]


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
    from holdfast.services.client import submission
    from holdfast.services.planning.available import SCHEMES
    from holdfast.services.view.reader import read_jobs, running_unit

    if wanted not in SCHEMES:
        raise typer.BadParameter(f"there is no scheme '{wanted}': one of {', '.join(sorted(SCHEMES))}")
    with connected(data_dir, kafka) as door, waiting(f"{unit} to {wanted} ...", quiet=as_json):
        line = running_unit(read_jobs(door), job, unit)
        submission.change_scheme(door, line, unit, wanted, timeout)
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
    from holdfast.services.client.move import move_unit, placed

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
    from holdfast.services.client import submission
    from holdfast.services.view.reader import read_jobs, running_job

    with connected(data_dir, kafka) as door, waiting(f"versions of {job} ...", quiet=as_json):
        view = read_jobs(door)
        line = running_job(view, job)
        plan = view.plan(line.generation)
        found = {} if plan is None else submission.accept_versions(door, line, plan, timeout)
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
    from holdfast.services.client import submission
    from holdfast.services.view.losses import dropped_as_late, once_each, why_late
    from holdfast.services.view.reader import read_jobs, running_job

    with connected(data_dir, kafka) as door, waiting(f"{kind} of {name} ...", quiet=as_json):
        job = running_job(read_jobs(door), name, "no command changes it")
        ended = None if job.state == state else submission.command(door, kind, job, timeout, start)
    done: dict[str, Any] = {"job": job.job, "generation": job.generation, "state": state}
    late = {} if ended is None else ended.late_dropped
    counts = {"late_dropped": once_each(late).by_source, "late_by_stream": late} if late else {}
    _print(done | counts, as_json)
    if late and not as_json:
        note(f"note: {dropped_as_late(late)}: the rows lack them")
        if ended is not None and (why := why_late(ended.leap)):
            note(f"note: {why}")


def _print(done: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        say(f"job {done['job']} {'has ended' if done['state'] == 'ended' else 'is ' + done['state']}")
