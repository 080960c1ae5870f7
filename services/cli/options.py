"""Options that every command has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_DATA_DIR = Path(".holdfast")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Directory of the local cluster. [default: HOLDFAST_HOME, else ./.holdfast]",
        show_default=False,
    ),
]
KafkaAt = Annotated[
    str | None,
    typer.Option(
        "--kafka",
        metavar="HOST:PORT",
        help="Kafka of the cluster. [default: that of the local cluster, else HOLDFAST_KAFKA]",
        show_default=False,
    ),
]
CreateTopics = Annotated[bool, typer.Option("--create-topics", help="Create topics that do not exist.")]
Partitions = Annotated[
    int | None,
    typer.Option("--partitions", min=1, max=10_000, help="Partitions of topics that are created.", show_default=False),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Continue with what comes, until Ctrl-C.")]


def complete_jobs(incomplete: str) -> list[str]:
    """Names of jobs, for the completion of a shell."""
    from holdfast.services.cli.job_names import job_names

    return job_names(incomplete)


JobName = Annotated[
    str, typer.Argument(metavar="JOB", help="Name of the job, or name@generation.", autocompletion=complete_jobs)
]
