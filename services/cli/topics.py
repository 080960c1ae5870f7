"""The command about the cluster's own topics."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from holdfast.services.cli.options import DataDir, Json, KafkaAt
from holdfast.services.cli.terminal import print_json, print_table, say, waiting
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.plurals import plural


def topics(
    clean: Annotated[bool, typer.Option("--clean", help="Delete them all: the cluster and its jobs are gone.")] = False,
    over: Annotated[
        bool, typer.Option("--over", help="With --clean: only dead letters of ended jobs whose time is over.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --clean: do not ask.")] = False,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """List the topics that the cluster and its jobs keep on Kafka, and until when; --clean deletes them.

    Topics that jobs read from and write to are yours: they are neither listed nor deleted. --clean is refused while
    the cluster runs. It is for a Kafka of your own: `down --purge` removes all data of an embedded one. --clean --over
    may be used at any time, and is what the controller does by itself.
    """
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client import cleanup

    if over and not clean:
        raise CommandFailed("--over goes with --clean", code=USAGE)
    with connected(data_dir, kafka) as door:
        lines = cleanup.owned(door)
        if over:
            lines = cleanup.clean_over(door)
        elif clean:
            if not yes:
                whose = f"of cluster '{door.topics.prefix}' on {door.where.bootstrap_servers}"
                typer.confirm(f"Delete {plural(len(lines), 'topic')} {whose}?", abort=True, err=True)
            with waiting("listening whether the cluster runs ...", quiet=as_json):
                lines = cleanup.clean(door)
    if as_json:
        print_json(lines)
    elif clean:
        say(f"{plural(len(lines), 'topic')} deleted")
    else:
        rows = [(line.topic, line.partitions, line.owner, _until(line.kept_until_ms)) for line in lines]
        print_table(("topic", "partitions", "of", "kept until"), rows)


def _until(ms: int | None) -> str:
    """Time until which a topic outlives its job."""
    return "" if ms is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(ms / 1000))
