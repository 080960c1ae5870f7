"""Foreground: a cluster that runs as long as the command does, with a live summary on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.services.cli.terminal import coloured, console
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.log.seal.private import keep_private
from holdfast.services.node.daemon import stop_on_signals
from holdfast.services.node.machine.cluster_files import AlreadyRunning, Cluster
from holdfast.services.node.settings import Settings
from holdfast.services.node.start import EXPECTED, Stopped
from holdfast.services.node.supervisor import Supervisor


def run_in_foreground(settings: Settings, workers: int, ready: Callable[[Cluster], None], *, quiet: bool) -> None:
    """Returns after a request to stop, when all has ended. Raises CommandFailed if the cluster does not start."""
    keep_private()
    supervisor = Supervisor(settings, workers)
    stop_on_signals(supervisor)
    live = not quiet and sys.stdout.isatty()
    with _summary(supervisor) if live else nullcontext():
        try:
            supervisor.start()
        except Stopped:
            return
        except AlreadyRunning as error:
            raise CommandFailed(str(error)) from None
        except EXPECTED as error:
            raise CommandFailed(str(error), "ask `holdfast doctor`") from None
        if not live:
            ready(supervisor.cluster)
        supervisor.run()
        supervisor.stop()


def _summary(supervisor: Supervisor) -> AbstractContextManager[object]:
    return Live(get_renderable=lambda: _draw(supervisor), console=console(), refresh_per_second=4)


def _draw(supervisor: Supervisor) -> Table:
    cluster = supervisor.cluster
    title = f"holdfast {cluster.state}: Kafka at {cluster.bootstrap_servers or '...'}, data in {cluster.data_dir}"
    table = Table(
        "", "state", "process", "restarts", "zone", title=title, title_justify="left", box=None, padding=(0, 2)
    )
    if supervisor.brokers is None:
        table.add_row("kafka", coloured("running"), "", "", "")
    else:
        for name, pid in supervisor.brokers.pids.items():
            table.add_row(name, coloured("running" if pid else "down"), _number(pid), "", "")
    for member in supervisor.members:
        state = coloured("running" if member.pid else "starting")
        zone = supervisor.zone_of(member) if member in supervisor.hosts else ""
        table.add_row(member.name, state, _number(member.pid), str(member.restarts or ""), zone)
    up_s = int(time.time() - cluster.started_ms / 1000)
    metrics = f", metrics from {next(iter(cluster.metrics.values()))} on" if cluster.metrics else ""
    metrics = f"{metrics}, console at {cluster.console}" if cluster.console else metrics
    up = f"up {up_s // 3600}:{up_s // 60 % 60:02}:{up_s % 60:02}{metrics}, Ctrl-C stops it"
    table.caption = Text(up, justify="left")
    return table


def _number(pid: int | None) -> str:
    return "" if pid is None else str(pid)
