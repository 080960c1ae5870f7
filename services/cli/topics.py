"""The command about the cluster's own topics."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.options import DataDir, Json, KafkaAt
from services.cli.terminal import print_json, print_table, say, waiting


def topics(
    clean: Annotated[bool, typer.Option("--clean", help="Delete them all: the cluster and its jobs are gone.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --clean: do not ask.")] = False,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """List the topics that the cluster and its jobs keep on Kafka; --clean deletes them.

    Topics that jobs read from and write to are yours: they are neither listed nor deleted. --clean is refused while
    the cluster runs. It is for a Kafka of your own: `down --purge` removes all data of an embedded one.
    """
    from services.cli.whereabouts import connected
    from services.client import cleaning

    with connected(data_dir, kafka) as door:
        lines = cleaning.owned(door)
        if clean:
            if not yes:
                question = (
                    f"Delete {len(lines)} topics of cluster '{door.topics.prefix}' on {door.where.bootstrap_servers}?"
                )
                typer.confirm(question, abort=True, err=True)
            with waiting("listening whether the cluster runs ...", quiet=as_json):
                lines = cleaning.clean(door)
    if as_json:
        print_json(lines)
    elif clean:
        say(f"{len(lines)} topics deleted")
    else:
        print_table(("topic", "partitions", "of"), [(line.topic, line.partitions, line.owner) for line in lines])
