"""Checks at once that Kafka listens at an address; the client would try for seconds."""

from __future__ import annotations

import os
import re
import socket
import threading
import time

from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.log.kafka.listeners import PROTOCOL, listener

CONNECT_S = 3.0
"""Time-out in seconds for the connections to all addresses together; a refusal or an unknown name is found much
earlier."""
_ADDRESS = re.compile(r"(?:\w+://)?(?:\[(?P<ipv6>[^\]]+)\]|(?P<host>[^:/]+))(?::(?P<port>\d+))?")
_PORT, _LAST_PORT = 9092, 65_535
_OF_THE_WEB = ("http://", "https://")


class _Unreached(Exception):
    """Nothing that can be Kafka listens at an address; the message is the reason."""


def reach(bootstrap_servers: str, hint: str) -> str:
    """Returns once one of the servers answers as Kafka does. Returns a text about one that is silent if none answers: a
    Kafka on an overloaded machine is silent, too; else an empty text.

    Raises CommandFailed with the reasons if no server can be Kafka.
    """
    deadline = time.monotonic() + CONNECT_S
    reasons: dict[str, None] = {}
    doubts: list[str] = []
    for one in filter(None, map(str.strip, bootstrap_servers.split(","))):
        try:
            doubt = _doubt(one, max(0.1, deadline - time.monotonic()))
        except _Unreached as reason:
            reasons[str(reason)] = None
            continue
        if not doubt:
            return ""
        doubts.append(doubt)
    if doubts:
        return doubts[0]
    why = ", ".join(reasons) or "no address"
    raise CommandFailed(f"Kafka at {bootstrap_servers or '(nowhere)'} cannot be reached: {why}", hint)


def _doubt(address: str, timeout_s: float) -> str:
    """Empty if Kafka answers at the address, or else a text about the silent server there. Raises _Unreached."""
    found = _ADDRESS.fullmatch(address)
    if found is None or address.lower().startswith(_OF_THE_WEB):
        raise _Unreached(f"'{address}' is no address: write HOST:PORT")
    host, port = found["ipv6"] or found["host"], int(found["port"] or _PORT)
    if not 0 < port <= _LAST_PORT:
        raise _Unreached(f"{port} is no port: a port is 1 to {_LAST_PORT}")
    with _connected(host, port, timeout_s) as connection:
        if _uses_tls():
            return ""
        there = listener(connection)
    if there.is_kafka is False:
        raise _Unreached(f"{host}:{port} is {there.what}")
    return f"{host}:{port} is {there.what}" if there.what else ""


def _connected(host: str, port: int, timeout_s: float) -> socket.socket:
    """A connection to the first address of the host that accepts one. Raises _Unreached."""
    deadline, reason = time.monotonic() + timeout_s, ""
    for address in _addresses(host, port, timeout_s):
        try:
            return socket.create_connection(address, max(0.1, deadline - time.monotonic()))
        except TimeoutError:
            reason = reason or f"no answer from {host}"
        except OSError as error:
            reason = reason or (error.strerror or str(error)).lower()
    raise _Unreached(reason)


def _addresses(host: str, port: int, timeout_s: float) -> list[tuple[str, int]]:
    """Addresses of a host. A name server that does not answer has no time-out of ours, so a thread asks it. Raises
    _Unreached.
    """
    found: list[tuple[str, int]] = []
    errors: list[Exception] = []

    def ask() -> None:
        try:
            for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                found.append((str(address[0]), int(address[1])))
        except (OSError, UnicodeError) as error:
            errors.append(error)

    asking = threading.Thread(target=ask, daemon=True, name="addresses")
    asking.start()
    asking.join(timeout_s)
    if found:
        return found
    if not errors:
        raise _Unreached(f"no name server says within {timeout_s:g} s where the host '{host}' is")
    if isinstance(errors[0], socket.gaierror) and errors[0].errno == socket.EAI_AGAIN:
        raise _Unreached(f"the name server does not say where the host '{host}' is: {str(errors[0].strerror).lower()}")
    raise _Unreached(f"there is no host '{host}'")


def _uses_tls() -> bool:
    """True if the clients open their connections with TLS: Kafka answers no plain request then."""
    return "ssl" in os.environ.get(PROTOCOL, "").lower()
