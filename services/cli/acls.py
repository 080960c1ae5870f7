"""The command `acls`: what each service may do on Kafka, as arguments of kafka-acls.sh or given at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import DataDir, Json, KafkaAt
from holdfast.services.cli.terminal import note, print_json, print_plain
from holdfast.services.cli.whereabouts import find, load_settings, opened
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.plurals import plural

if TYPE_CHECKING:
    from holdfast.schemas.rights import Right, Role
    from holdfast.schemas.topics import ClusterTopics

_Names = list[str]
Reads = Annotated[
    _Names, typer.Option("--reads", metavar="TOPIC", help="A topic that jobs read; `orders-*`: all that begin so.")
]
Writes = Annotated[_Names, typer.Option("--writes", metavar="TOPIC", help="A topic that jobs write, likewise.")]
Apply = Annotated[bool, typer.Option("--apply", help="Give the rights, by the login of an administrator.")]
Passwords = Annotated[
    Path | None,
    typer.Option(
        "--passwords",
        metavar="DIR",
        help="With --apply, set each user's password for SCRAM-SHA-512 from the file of the role's name in DIR.",
        show_default=False,
    ),
]


def acls(
    apply: Apply = False,
    reads: Reads = [],  # noqa: B006
    writes: Writes = [],  # noqa: B006
    passwords: Passwords = None,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Print what each service may do on Kafka, or --apply it. Rights on a job's topics come with the job."""
    from holdfast.schemas.rights import of_cluster, of_users_topics
    from holdfast.schemas.topics import ClusterTopics

    if passwords is not None and not apply:
        raise CommandFailed("--passwords goes with --apply", code=USAGE)
    topics = ClusterTopics(load_settings(data_dir, kafka).cluster)
    rights = of_cluster(topics) + of_users_topics(reads, writes)
    if apply:
        _apply(topics, rights, {} if passwords is None else _read(passwords), data_dir, kafka)
    elif as_json:
        print_json([{"user": f"{topics.prefix}-{one.role}", "on": one.on, "name": one.name, "begins": one.begins,
                     "do": one.do} for one in rights])  # fmt: skip
    else:
        from holdfast.services.log.kafka.rights import command

        for one in rights:
            print_plain(command(topics.prefix, one))


def _apply(
    topics: ClusterTopics, rights: list[Right], passwords: dict[Role, bytes], data_dir: Path | None, kafka: str | None
) -> None:
    """Gives the rights, also those of existing jobs, which may have begun before rights were required."""
    from holdfast.schemas.assignments import split_job_key
    from holdfast.schemas.rights import of_job
    from holdfast.services.log.kafka.client_settings import client_settings
    from holdfast.services.log.kafka.rights import Rights

    where = find(data_dir, kafka)
    log = opened(where)
    try:
        owners = {topics.owner(name) for name in log.topics()} - {None, "cluster"}
    finally:
        log.close()
    jobs = [topics.job(*split_job_key(owner)) for owner in sorted(filter(None, owners))]
    door = Rights(where.bootstrap_servers, client_settings(), topics.prefix)
    door.set_passwords(passwords)
    door.give(rights + [right for job in jobs for right in of_job(job)])
    generations = plural(len(jobs), "generation")
    note(f"given: {plural(len(rights), 'right')} of cluster '{topics.prefix}', and those of {generations} of jobs")


def _read(folder: Path) -> dict[Role, bytes]:
    from holdfast.schemas.rights import Role

    found = {}
    for role in Role:
        try:
            found[role] = (folder / role).read_bytes().strip()
        except OSError as error:
            raise CommandFailed(f"--passwords: {error}", "infra/security/certificates makes them") from None
        if not found[role]:
            raise CommandFailed(f"--passwords: {folder / role} is empty")
    return found
