"""Whereabouts: finds the cluster that a command means, and opens the door to it.

An option takes precedence over the cluster that runs in the data directory, and that cluster over HOLDFAST_KAFKA.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.schemas.topics import ClusterTopics
from holdfast.services.cli.options import DEFAULT_DATA_DIR
from holdfast.services.cli.terminal import note
from holdfast.services.kernel.errors import USAGE, CommandFailed, Retriable
from holdfast.services.log.kafka.reach import reach
from holdfast.services.node.machine.cluster_files import ClusterFiles
from holdfast.services.node.machine.disk import shortage
from holdfast.services.node.machine.folders import using
from holdfast.services.view.door import Door, Whereabouts

if TYPE_CHECKING:
    from holdfast.schemas.jobs import JobSpec
    from holdfast.services.log.patience import Patience
    from holdfast.services.log.protocol import Log
    from holdfast.services.node.settings import Settings

CHECK = "check the address; `holdfast up` starts a cluster with a Kafka of its own"


def load_settings(data_dir: Path | None = None, kafka: str | None = None, **options: Any) -> Settings:
    """Settings with a command's options laid over them. Raises CommandFailed for a variable that makes no sense."""
    from pydantic import ValidationError

    from holdfast.services.diagnostics.settings import PREFIX
    from holdfast.services.node.settings import Settings

    given = {"home": data_dir, "kafka": kafka, **options}
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = f"{PREFIX}{'_'.join(map(str, first['loc'])).upper()}: " if first["loc"] else ""
        raise CommandFailed(name + first["msg"], "`holdfast settings` explains them", USAGE) from None


def data_directory(data_dir: Path | None) -> Path:
    return (data_dir or Path(os.environ.get("HOLDFAST_HOME") or DEFAULT_DATA_DIR)).absolute()


def allowed(spec: JobSpec, data_dir: Path | None) -> list[str]:
    """Modules that the local cluster's workers accept; without a cluster or a setting, those of the job."""
    from holdfast.services.planning.check import entry_of

    cluster = ClusterFiles(data_directory(data_dir)).running()
    listed = (load_settings(data_dir).plugins if cluster is None else cluster.plugins).split(",")
    modules = [entry.split(":")[0] for entry in map(entry_of, spec.operators.values()) if entry]
    return [module.strip() for module in listed if module.strip()] or ([] if cluster is not None else modules)


def find(data_dir: Path | None, kafka: str | None) -> Whereabouts:
    """The place of the cluster. Raises CommandFailed if no cluster is named and none runs."""
    directory = data_directory(data_dir)
    with using(directory, "give the folder of your cluster: --data-dir, or HOLDFAST_HOME"):
        running = None if kafka else ClusterFiles(directory).running()
    if running is not None:
        return Whereabouts(directory, running.bootstrap_servers, running.prefix, True, secret_file=running.secret_file)
    servers = kafka or os.environ.get("HOLDFAST_KAFKA")
    if not servers:
        hint = "start one: `holdfast up --detach`, or name a Kafka: --kafka HOST:PORT"
        raise CommandFailed(f"no cluster runs in {directory}", hint)
    return Whereabouts(directory, servers, load_settings(data_dir, kafka).cluster, False)


@contextmanager
def connected(data_dir: Path | None, kafka: str | None, *, any_kafka: bool = False) -> Iterator[Door]:
    """The cluster that a command means, once its Kafka has answered. Its log waits for partitions without a leader.

    Args:
        any_kafka: true if a Kafka without a cluster suffices.

    Raises:
        CommandFailed: there is no cluster, or Kafka does not answer within HOLDFAST_COMMAND_PATIENCE_S.
    """
    where = find(data_dir, kafka)
    if where.local and (short := shortage(where.data_dir)):
        note(f"{short}; the cluster waits for room, then continues")
    doubt = ""
    if not where.local:  # the local cluster's Kafka, when it is down, is being started again
        doubt = reach(where.bootstrap_servers, CHECK)
        if doubt:
            note(doubt)

    from holdfast.services.kernel import lazy_modules
    from holdfast.services.log.door import expect_secret
    from holdfast.services.log.seal.secret import SECRET_FILE, is_said

    lazy_modules.resolve(load=False)

    if where.secret_file and not is_said():
        os.environ[SECRET_FILE] = where.secret_file
    patience = patience_with(data_dir, kafka)
    log = opened(where, patience)
    try:
        topics = ClusterTopics(where.prefix)
        present = _listed(log, where, () if any_kafka else [topics.submit], doubt)
        if not any_kafka and topics.submit not in present:
            message = f"there is no cluster '{where.prefix}' on Kafka at {where.bootstrap_servers}"
            raise CommandFailed(message, f"start one: `holdfast up --kafka {where.bootstrap_servers}`")
        if topics.events in present:
            expect_secret(log, topics)
        yield Door(log, topics, present, where, patience=patience)
    finally:
        _say_refused(log)
        log.close()


def opened(where: Whereabouts, patience: Patience | None = None) -> Log:
    """The log of a command, which is to `close` it: one that waits, with a word to the person."""
    from holdfast.services.log.door import open_waiting

    patience = patience or patience_with(where.data_dir, where.bootstrap_servers)
    return open_waiting(where.bootstrap_servers, where.prefix, f"cli-{os.getpid()}", patience)


def patience_with(data_dir: Path | None = None, kafka: str | None = None) -> Patience:
    """Patience of a command with a broker that does not answer, with a word to the person."""
    from holdfast.services.log.patience import Patience

    return Patience(load_settings(data_dir, kafka).command_patience_s, note)


def _listed(log: Log, where: Whereabouts, needed: Sequence[str], doubt: str = "") -> dict[str, int]:
    """The topics on Kafka. On a machine that is overloaded, or whose Kafka starts, a person waits for them.

    Args:
        doubt: text about a server at the address that may be no Kafka.

    Raises CommandFailed.
    """
    from holdfast.services.log.kafka.login import LoginRefused

    try:
        return log.topics(needed)
    except LoginRefused as error:
        raise CommandFailed(str(error), "`holdfast settings` lists those that are set") from error
    except Retriable as error:
        if doubt:
            raise CommandFailed(f"Kafka at {where.bootstrap_servers} cannot be reached: {doubt}", CHECK) from error
        message = f"Kafka at {where.bootstrap_servers} does not list its topics: {error}"
        raise CommandFailed(message, "if its machine is overloaded, try again") from error


def _say_refused(log: Log) -> None:
    from holdfast.services.log.seal.sealed import SealedLog

    if isinstance(log, SealedLog) and (counts := log.refusals.counts):
        topics = ", ".join(f"{count} in {topic}" for topic, count in sorted(counts.items()))
        note(f"records without the cluster's seal, which do not count: {topics}")
