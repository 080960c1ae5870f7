"""The console's process, from its socket to its end."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path

import uvicorn
from fastapi.staticfiles import StaticFiles
from nicegui import ui

from holdfast.services.console.actions import Actions, Machine
from holdfast.services.console.api import make_app
from holdfast.services.console.feed import Feed
from holdfast.services.console.guard import Guard
from holdfast.services.console.installation import YIELDS
from holdfast.services.console.pages import STATIC, Console, add_pages
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.view.door import Door

ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that mean all addresses of a machine, each with an address that a browser can open."""
_ICON = Path(__file__).parent / "static" / "icon.svg"


@dataclass(frozen=True, slots=True)
class Served:
    """Settings of the served console.

    names: names by which browsers reach it, beside the address.
    allow: modules that operators may come from.
    """

    port: int
    address: str
    names: tuple[str, ...]
    read_only: bool
    token: str
    allow: tuple[str, ...] = ()
    bound_to: socket.socket | None = None

    def bound(self) -> Served:
        """The settings with a listening socket and its port. Raises CommandFailed if the port is taken.

        The socket listens from here on, since its address is printed before the server runs: a browser that comes
        earlier waits and is not refused.
        """
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((self.address, self.port))
            made.listen()
        except OSError as error:
            made.close()
            why = error.strerror or str(error)
            raise CommandFailed(
                f"port {self.port} at {self.address}: {why.lower()}", "--port 0 takes a free one", USAGE
            ) from None
        return replace(self, bound_to=made, port=made.getsockname()[1])

    def adopted(self, number: int) -> Served:
        """The settings with a socket that this process inherits from another one, by its descriptor."""
        taken = socket.socket(fileno=number)
        return replace(self, bound_to=taken, port=taken.getsockname()[1])

    @property
    def url(self) -> str:
        """Address to open on this machine, with the token."""
        address = ANY.get(self.address, self.address)
        host = f"[{address}]" if ":" in address else address
        return f"http://{host}:{self.port}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        return (*self.names, f"[{self.address}]" if ":" in self.address else self.address)


def serve(door: Door, served: Served, machine: Machine | None) -> None:
    """Returns on SIGINT or SIGTERM."""
    os.nice(YIELDS)
    feed = Feed(door)
    actions = Actions(door, machine, list(served.allow), read_only=served.read_only)
    app = make_app(feed, door, actions)
    app.mount("/console-static", StaticFiles(directory=STATIC))
    add_pages(Console(feed, door, actions, app.openapi))
    ui.run_with(
        app, title="holdfast", favicon=_ICON, dark=None, language="en-US", tailwind=False,
        binding_refresh_interval=None, show_welcome_message=False, reconnect_timeout=10.0,
    )  # fmt: skip
    guarded = Guard(app, served.token, f"holdfast-console-{served.port}", served.hosts)
    for name in ("uvicorn.error", "nicegui"):
        logging.getLogger(name).setLevel(logging.WARNING)
    config = uvicorn.Config(
        guarded, log_config=None, access_log=False, timeout_graceful_shutdown=2, server_header=False,
        ws="websockets-sansio",
    )  # fmt: skip
    feed.start()
    try:
        uvicorn.Server(config).run(sockets=[served.bound_to] if served.bound_to is not None else None)
    finally:
        feed.close()
