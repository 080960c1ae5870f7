"""The command `console`: the cluster in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import DataDir, Json, KafkaAt
from holdfast.services.cli.terminal import note, print_json, say
from holdfast.services.kernel.errors import FAILED, CommandFailed

if TYPE_CHECKING:
    from holdfast.services.node.machine.cluster_files import Cluster

PORT = 8460
SETTINGS = "HOLDFAST_CONSOLE_"
"""Prefix of the variables that replace missing options."""
LOCAL = ("127.0.0.1", "localhost", "::1")


def console(
    ctx: typer.Context,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, envvar=f"{SETTINGS}PORT", help="Its port; 0 = any that is free.")
    ] = PORT,
    address: Annotated[
        str,
        typer.Option(
            "--address",
            envvar=f"{SETTINGS}ADDRESS",
            help="Address of this machine at which it is served; another one needs TLS before.",
        ),
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            envvar=f"{SETTINGS}NAMES",
            help="Another name by which browsers reach it, such as that of a proxy.",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", envvar=f"{SETTINGS}READ_ONLY", help="Show everything, change nothing.")
    ] = False,
    inherited: Annotated[int | None, typer.Option("--socket", envvar="LISTENS_ON", hidden=True)] = None,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Show the cluster and its jobs in a browser; prints the address, with a token.

    A cluster of `holdfast up` on this machine serves it already: then its address is opened. Otherwise, and with an
    option that says how it is to be served, it is served until Ctrl-C.

    It shows jobs as graphs with the rates of their edges, takeovers phase by phase, checkpoints, results and dead
    letters, and a form submits jobs. A person with the token may do what the commands do, unless it is --read-only.
    The token is in the file console-token of the data directory, which only its owner reads.
    """
    from holdfast.services.console.installation import COMMAND, missing

    if why := missing():
        raise CommandFailed(why, COMMAND, FAILED)

    from holdfast.services.cli.faults import kill_worker, stall_worker
    from holdfast.services.cli.whereabouts import connected, data_directory
    from holdfast.services.console.guard import read_token
    from holdfast.services.node.machine.cluster_files import ClusterFiles

    directory = data_directory(data_dir)
    cluster, own = ClusterFiles(directory).running(), inherited is not None or _asks_for_its_own(ctx)
    if cluster is not None and cluster.console and not own:
        url = f"{cluster.console}?token={read_token(directory)}"
        _say_address(url, directory, read_only=read_only, as_json=as_json)
        _open(url)
        return

    from holdfast.services.console.actions import Machine
    from holdfast.services.console.server import Served, serve

    with connected(data_dir, kafka) as door:
        served = Served(
            port, address, tuple(name or ()), read_only, token=read_token(directory), allow=_allowed(cluster, data_dir)
        )
        served = served.bound() if inherited is None else served.adopted(inherited)
        if inherited is None:  # a log must not hold a token
            _say_address(served.url, directory, read_only=read_only, as_json=as_json)
        if address not in LOCAL:
            note("others reach it, and its token goes over the network in the clear: put TLS before it")
        machine = None
        if door.where.local:
            machine = Machine(
                lambda worker: kill_worker(worker, data_dir),
                lambda worker, seconds: stall_worker(worker, seconds, data_dir),
            )
        serve(door, served, machine)


def _asks_for_its_own(ctx: typer.Context) -> bool:
    """True if an option sets how or where the console is served."""
    given = (ctx.get_parameter_source(name) for name in ("port", "address", "name", "read_only", "kafka"))
    return any(source is not None and source.name == "COMMANDLINE" for source in given)


def _say_address(url: str, directory: Path, *, read_only: bool, as_json: bool) -> None:
    from holdfast.services.console.guard import TOKEN_FILE

    if as_json:
        print_json({"address": url, "token_file": str(directory / TOKEN_FILE), "read_only": read_only})
    else:
        say(f"console: {url}")


def _open(url: str) -> None:
    """Opens a browser if there is a screen and a person."""
    import os
    import sys
    import webbrowser

    if sys.stdout.isatty() and (sys.platform == "darwin" or os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}):
        webbrowser.open(url)


def _allowed(cluster: Cluster | None, data_dir: Path | None) -> tuple[str, ...]:
    """Modules that operators may come from.

    cluster: the cluster that runs on this machine.
    """
    from holdfast.services.cli.whereabouts import load_settings

    listed = load_settings(data_dir).plugins if cluster is None else cluster.plugins
    return tuple(module.strip() for module in listed.split(",") if module.strip())
