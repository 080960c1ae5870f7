"""Commands that start and stop a whole cluster on this machine: up, down."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import DataDir, Json, KafkaAt
from holdfast.services.cli.terminal import note, print_json, say, waiting
from holdfast.services.cli.whereabouts import data_directory, load_settings
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.plurals import plural
from holdfast.services.log.kafka.reach import reach
from holdfast.services.node.members.service import Service

if TYPE_CHECKING:
    from holdfast.services.node.machine.cluster_files import Cluster, ClusterFiles
    from holdfast.services.node.settings import Settings

DOWN_S = 60.0

Workers = Annotated[int, typer.Option("--workers", "-n", min=0, max=256, help="Workers to start.")]
Recoveries = Annotated[
    int | None,
    typer.Option("--recoveries", min=1, max=16, help="Recovery replicas to start. [default: 1]", show_default=False),
]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Return when jobs can be submitted; it stays up.")]
Brokers = Annotated[
    int | None,
    typer.Option(
        "--brokers",
        min=1,
        max=9,
        help="Brokers of the embedded Kafka; 3 replicate each other. [default: 1]",
        show_default=False,
    ),
]
Port = Annotated[
    int | None,
    typer.Option("--port", min=1024, max=65_534, help="Port of the embedded Kafka. [default: any]", show_default=False),
]


def up(
    workers: Workers = 3,
    recoveries: Recoveries = None,
    detach: Detach = False,
    brokers: Brokers = None,
    port: Port = None,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Start a cluster on this machine: Kafka (unless --kafka names one), controller, recovery, workers."""
    from holdfast.services.node.machine.cluster_files import ClusterFiles
    from holdfast.services.node.machine.folders import DATA_SETTING, using
    from holdfast.services.node.plugins import check_plugins

    settings = load_settings(data_directory(data_dir), kafka, kafka_port=port, recoveries=recoveries, brokers=brokers)
    files = ClusterFiles(settings.home)
    with using(files.data_dir, DATA_SETTING):
        pid = files.supervisor()
    if pid is not None:
        raise CommandFailed(f"a cluster runs in {files.data_dir} already, as process {pid}", _how_to_stop(files))
    _check_secret(settings)
    check_plugins(settings.plugins)
    if settings.kafka:
        hint = "start it, or leave --kafka and HOLDFAST_KAFKA out: `holdfast up` brings a Kafka"
        if doubt := reach(settings.kafka, hint):
            note(doubt)
    else:
        with using(files.data_dir, DATA_SETTING):
            files.make()  # before minutes are spent on Kafka
        _fetch_kafka(quiet=as_json)
    if detach:
        from holdfast.services.node.detached_start import start_detached

        with waiting("starting the cluster ...", quiet=as_json):
            cluster = start_detached(settings, workers)
        _print(cluster, as_json)
    else:
        from holdfast.services.cli.foreground import run_in_foreground

        run_in_foreground(settings, workers, lambda cluster: _print(cluster, as_json), quiet=as_json)


def _fetch_kafka(*, quiet: bool) -> None:
    """The first `up` on a machine brings the jars of the embedded Kafka. Raises ArtifactsMissing or JavaMissing."""
    from holdfast.services.node.machine.artifacts import ensure, is_there, read_set

    if not is_there(read_set("kafka")):
        with waiting("fetching Kafka, 47 MB, once for this machine ...", quiet=quiet):
            ensure("kafka")


def serve(
    service: Annotated[Service, typer.Argument(metavar="SERVICE", help="worker, controller, recovery or spark.")],
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
) -> None:
    """Run one service on a Kafka that is there, and start it again when it ends: what a container runs."""
    from holdfast.services.node.single_service import serve as run
    from holdfast.services.node.start import EXPECTED

    settings = load_settings(data_directory(data_dir), kafka)
    if not settings.kafka:
        raise CommandFailed("no Kafka is named", "set HOLDFAST_KAFKA, or --kafka HOST:PORT", USAGE)
    _check_secret(settings)
    servers = settings.kafka

    def unreached() -> str:
        try:
            reach(servers, "")
        except CommandFailed as error:
            return error.message
        return ""

    try:
        run(service, settings, unreached)
    except EXPECTED as error:
        raise CommandFailed(str(error), "`holdfast settings` explains what is set") from None


def _check_secret(settings: Settings) -> None:
    """Raises CommandFailed without a secret on a shared Kafka, where only a seal distinguishes the cluster's records
    from others.
    """
    from holdfast.services.log.kafka.client_settings import secret_files
    from holdfast.services.log.seal.secret import HOW, SECRET, is_said, keyring, readable_by_others, secret_file

    sealed = keyring() is not None
    if settings.kafka and not is_said():
        message = f"others can write to Kafka at {settings.kafka}: the cluster needs a secret to know its own records"
        raise CommandFailed(message, f"{HOW}; or do without: {SECRET}=off", USAGE)
    if settings.kafka and not sealed:
        note(f"{SECRET} is off: any writer to Kafka can write records that the cluster takes for its own")
    for file in filter(None, (secret_file(), *secret_files().values())):
        if readable_by_others(file):
            note(f"others on this machine can read a secret: `chmod 600 {file}`")


def _print(cluster: Cluster, as_json: bool) -> None:
    if as_json:
        print_json({
            "bootstrap_servers": cluster.bootstrap_servers,
            "console": cluster.console or None,
            "data_dir": cluster.data_dir,
            "metrics": cluster.metrics,
        })  # fmt: skip
    else:
        say(f"ready: Kafka at {cluster.bootstrap_servers}, data in {cluster.data_dir}")
        if cluster.console:
            say(f"console: `holdfast console` opens {cluster.console}")
        if cluster.metrics:
            name, first = next(iter(cluster.metrics.items()))
            processes = plural(len(cluster.metrics), "process", "processes")
            say(f"metrics of {name} at {first}; {cluster.data_dir}/metrics.json lists {processes} for Prometheus")


def down(
    purge: Annotated[bool, typer.Option("--purge", help="Remove the cluster's data, too.")] = False,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Stop the cluster on this machine; its data stay, unless --purge."""
    from holdfast.services.node.machine.cluster_files import ClusterFiles

    files = ClusterFiles(data_directory(data_dir))
    running = files.running()
    with waiting("stopping the cluster ...", quiet=as_json):
        stopped = _stop(files)
    if purge:
        files.take()
        files.purge()
        files.release()
    left = _kafka_that_stays(files, running, kafka) if purge else ""
    if as_json:
        print_json({"stopped": stopped, "purged": purge, "data_dir": str(files.data_dir), "topics_stay_at": left})
        return
    what = "stopped" if stopped else f"no cluster ran in {files.data_dir}"
    say(what + ("; its data are removed" if purge else ""))
    if left:
        prefix = running.prefix if running is not None else load_settings(files.data_dir, kafka).cluster
        note(
            f"the topics of cluster '{prefix}' and of its jobs stay on Kafka at {left}: "
            f"`holdfast topics --clean --kafka {left}` deletes them once no other host runs the cluster"
        )


def _kafka_that_stays(files: ClusterFiles, running: Cluster | None, kafka: str | None) -> str:
    """The address of a Kafka that the cluster did not start; empty if it was embedded.

    running: the cluster that ran until now.
    """
    if running is None:
        return load_settings(files.data_dir, kafka).kafka or ""
    return running.bootstrap_servers if running.kafka_pid is None else ""


def _stop(files: ClusterFiles) -> bool:
    """False if none ran. The process id is that of the lock's holder, so it cannot be another process's."""
    pid = files.supervisor()
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_S
    while files.supervisor() == pid:
        if time.monotonic() > deadline:
            note(f"process {pid} did not stop within {DOWN_S:g} s: killed, and all that it started with it")
            os.kill(pid, signal.SIGKILL)
            deadline += DOWN_S
        time.sleep(0.02)
    return True


def _how_to_stop(files: ClusterFiles) -> str:
    default = files.data_dir == data_directory(Path(".holdfast"))
    return "`holdfast down" + ("" if default else f" --data-dir {files.data_dir}") + "` stops it"
