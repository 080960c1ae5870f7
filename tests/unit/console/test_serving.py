"""The console's socket: a browser that comes before the server runs waits."""

from __future__ import annotations

import socket

import pytest

pytest.importorskip("nicegui", reason="the console is an extra: ./scripts/setup installs it")

from holdfast.services.console.server import Served
from tests.support.deadlines import HANG_S


def test_a_browser_that_opens_the_printed_address_at_once_is_not_refused() -> None:
    served = Served(0, "127.0.0.1", (), read_only=False, token="a-token").bound()
    assert served.bound_to is not None
    with served.bound_to, socket.create_connection(("127.0.0.1", served.port), timeout=HANG_S):
        pass
