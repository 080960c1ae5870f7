"""The command that changes when the units of a job capture."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.options import DataDir, JobName, Json, KafkaAt
from services.cli.terminal import note, print_json, say, waiting
from services.kernel.errors import CommandFailed

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
    from schemas.commands import Command
    from schemas.job_settings import POLICY_NAMES
    from services.cli.whereabouts import connected
    from services.client.checkpointing import change_policy
    from services.planning.checkpoints import without_effect
    from services.view.cluster import OVER
    from services.view.reading import named_job, read_jobs

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
        line = named_job(read_jobs(door), job)
        if line.state in OVER:
            raise CommandFailed(f"job {line.job} is {line.state}: it captures nothing")
        done = change_policy(door, line, command, timeout)
    for name in without_effect(policy):
        if name in command.settings:
            note(f"note: {name} has no effect under {policy}")
    if as_json:
        print_json({"job": line.job, "generation": line.generation, "checkpoint": done})
    else:
        say(f"job {line.job}: checkpoints by {done}")
