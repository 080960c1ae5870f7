"""The network that tests cut: nothing passes while it is cut, and nothing is lost when it is healed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support.deadlines import HANG_S
from tests.support.proxy import BACK, THERE, Proxy

SILENCE_S = 0.2


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """In front of a server that echoes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=echo, args=(server,), daemon=True).start()
        made = Proxy(server.getsockname()[1])
        yield made
        made.close()


def echo(server: socket.socket) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=answer, args=(client,), daemon=True).start()


def answer(client: socket.socket) -> None:
    while data := client.recv(1000):
        client.sendall(data)


@pytest.mark.parametrize("ways", [(), (THERE,), (BACK,)])
def test_bytes_sent_while_the_proxy_is_cut_arrive_when_it_is_healed(proxy: Proxy, ways: tuple[str, ...]) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=HANG_S) as client:
        client.sendall(b"before")
        assert client.recv(6, socket.MSG_WAITALL) == b"before"
        proxy.cut(*ways)
        client.sendall(b"meanwhile")
        client.settimeout(SILENCE_S)
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.heal()
        client.settimeout(HANG_S)
        assert client.recv(9, socket.MSG_WAITALL) == b"meanwhile"


def test_a_connection_opened_while_it_is_cut_is_there_when_it_is_healed(proxy: Proxy) -> None:
    proxy.cut()
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=SILENCE_S) as client:
        client.sendall(b"hello")
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.heal()
        client.settimeout(HANG_S)
        assert client.recv(5, socket.MSG_WAITALL) == b"hello"


def test_closed_it_ends_what_goes_through_it(proxy: Proxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=HANG_S) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        proxy.close()
        assert client.recv(1) == b""
