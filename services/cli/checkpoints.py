"""Commands about the checkpoints of a job: when its units capture, and where they begin again."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.services.cli.options import DataDir, JobName, Json, KafkaAt
from holdfast.services.cli.terminal import note, print_json, say, waiting

Milliseconds = Annotated[int | None, typer.Option(min=0, show_default="as it is")]


def checkpoint(
    job: JobName,
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="sweep, aligned, idle-minmax, ...")],
    interval_ms: Milliseconds = None,
    min_interval_ms: Milliseconds = None,
    max_interval_ms: Milliseconds = None,
    merge_ms: Annotated[float | None, typer.Option(min=0, show_default="as it is")] = None,
    every_batches: Annotated[int | None, typer.Option(min=1, show_default="as it is")] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait.")] = 60.0,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Change the checkpoint policy of a job while it runs: when its units capture.

    Policies and settings are those of `fault_tolerance.checkpoint` in a job file; what is not given stays as it is. The
    workers follow the policy as soon as they have read the record that decides it; a capture under way is finished.
    What cannot work with the scheme of a unit is refused, as at submission. Returns once it is decided.
    """
    from holdfast.schemas.commands import Command
    from holdfast.schemas.job_settings import POLICY_NAMES
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client.policy_change import change_policy
    from holdfast.services.planning.checkpoints import without_effect
    from holdfast.services.view.reader import read_jobs, running_job

    if policy not in POLICY_NAMES:
        raise typer.BadParameter(f"there is no policy '{policy}': one of {', '.join(POLICY_NAMES)}")
    command = Command(
        "checkpoint",
        job,
        policy=policy,
        interval_ms=interval_ms,
        min_interval_ms=min_interval_ms,
        max_interval_ms=max_interval_ms,
        merge_ms=merge_ms,
        every_batches=every_batches,
    )
    with connected(data_dir, kafka) as door, waiting(f"{job} to {policy} ...", quiet=as_json):
        line = running_job(read_jobs(door), job, "it captures nothing")
        done = change_policy(door, line, command, timeout)
    for name in without_effect(policy):
        if name in command.settings:
            note(f"note: {name} has no effect under {policy}")
    if as_json:
        print_json({"job": line.job, "generation": line.generation, "checkpoint": done})
    else:
        say(f"job {line.job}: checkpoints by {done}")


def rollback(
    job: JobName,
    unit: Annotated[str, typer.Argument(metavar="[UNIT]", help="One unit; default: all units of the job.")] = "",
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait.")] = 60.0,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Take units of a job back to its newest global checkpoint, from which they compute again.

    There are global checkpoints under the policy `aligned`. What units compute again is the same: units that read it
    drop it, and no sink delivers it twice. Returns once it is decided.
    """
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client.rollback import roll_back
    from holdfast.services.view.reader import read_jobs, running_job, running_unit

    with connected(data_dir, kafka) as door, waiting(f"rolling back {unit or job} ...", quiet=as_json):
        view = read_jobs(door)
        line = running_unit(view, job, unit) if unit else running_job(view, job)
        done = roll_back(door, line, unit, timeout)
    if as_json:
        print_json({"job": line.job, "generation": line.generation, "units": done})
    else:
        for one in done:
            say(f"{one.unit} begins again behind batch {one.batch}, on line {one.line}")
