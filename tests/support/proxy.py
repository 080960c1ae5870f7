"""A network that can be cut: a TCP proxy between one worker and the broker.

Cut, it holds what either side sends, as a network does that loses every packet: no connection is closed, and when it
is healed everything arrives late.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.services.node.kafka.broker import EmbeddedKafka
from holdfast.services.node.kafka.brokers import Brokers
from holdfast.services.node.lineup import Own
from holdfast.services.node.machine import ports
from holdfast.services.node.members.members import Member
from holdfast.services.node.settings import Settings
from tests.support.doomed_cluster import DoomedLineup, DoomedSupervisor

THERE, BACK = "there", "back"
"""From the worker to the broker, and from the broker to the worker."""


class Proxy:
    """Listens on loopback from its beginning to `close`.

    Args:
        to: port on loopback that is forwarded to; it may change.
    """

    def __init__(self, to: int) -> None:
        self.to = to
        self._flows = {way: threading.Event() for way in (THERE, BACK)}
        self._sockets: set[socket.socket] = set()
        self.heal()
        self._server = _listening()
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    def cut(self, *ways: str) -> None:
        """In these directions; none: in both."""
        for way in ways or self._flows:
            self._flows[way].clear()

    def heal(self) -> None:
        for flow in self._flows.values():
            flow.set()

    def close(self) -> None:
        """Connections end, and nobody is left waiting."""
        for one in (self._server, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.heal()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                worker, _ = self._server.accept()
                self._sockets.add(worker)
                threading.Thread(target=self._connect, args=(worker,), daemon=True).start()

    def _connect(self, worker: socket.socket) -> None:
        self._flows[THERE].wait()  # a broker beyond a cut does not even answer a call
        try:
            broker = socket.create_connection(("127.0.0.1", self.to))
        except OSError:
            worker.close()
            return
        self._sockets.add(broker)
        for one in (worker, broker):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self._pump, args=(broker, worker, self._flows[BACK]), daemon=True).start()
        self._pump(worker, broker, self._flows[THERE])

    def _pump(self, source: socket.socket, sink: socket.socket, flow: threading.Event) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                flow.wait()
                sink.sendall(data)
        for one in (source, sink):
            self._sockets.discard(one)
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _listening() -> socket.socket:
    """On a port that nobody took between our choosing and our taking it."""
    while True:
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", ports.choose_pair()))


class ProxiedKafka(EmbeddedKafka):
    """Has a second listener, which it says to be reached by way of `proxy`."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.proxy = Proxy(ports.choose_pair())

    def _configure(self, port: int) -> None:
        super()._configure(port)
        if not ports.is_free(self.proxy.to) or self.proxy.to in (port, port + 1):
            self.proxy.to = ports.choose_pair()
        with (self.data_dir / "server.properties").open("a") as file:  # the last line of a name counts
            file.write(
                f"listeners=CLIENTS://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1},"
                f"PROXIED://127.0.0.1:{self.proxy.to}\n"
                f"advertised.listeners=CLIENTS://127.0.0.1:{port},PROXIED://127.0.0.1:{self.proxy.port}\n"
                "listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT\n"
            )

    def stop(self) -> None:
        self.proxy.close()
        super().stop()


FAR = "worker-1"
"""The worker that reaches the broker through a proxy."""


class ProxiedLineup(DoomedLineup):
    """Gives one worker the address of a proxy in place of the broker's."""

    proxy: Proxy

    def member(self, name: str, module: str, own: Own) -> Member:
        def by_proxy(run: str) -> dict[str, str]:
            return own(run) | ({"HOLDFAST_KAFKA": f"127.0.0.1:{self.proxy.port}"} if name == FAR else {})

        return super().member(name, module, by_proxy)


class ProxiedSupervisor(DoomedSupervisor):
    """The first worker reaches the broker through a proxy."""

    lineup = ProxiedLineup

    def __init__(self, settings: Settings, workers: int) -> None:
        super().__init__(settings, workers)
        self.proxied = ProxiedKafka(self.files.data_dir / "kafka")
        self.brokers = Brokers([self.proxied])
        assert isinstance(self._lineup, ProxiedLineup)
        self._lineup.proxy = self.proxied.proxy

    @property
    def proxy(self) -> Proxy:
        return self.proxied.proxy

    @contextmanager
    def cut(self, *ways: str) -> Iterator[None]:
        """Until the end of the block."""
        self.proxy.cut(*ways)
        try:
            yield
        finally:
            self.proxy.heal()
