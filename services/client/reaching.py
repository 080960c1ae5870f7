"""Checks at once that a Kafka's address accepts connections; the client would try for seconds."""

from __future__ import annotations

import re
import socket
import time

from holdfast.services.kernel.errors import CommandFailed

CONNECT_S = 3.0
"""Time-out in seconds for all addresses together; a refusal or an unknown name is found much earlier."""
_ADDRESS = re.compile(r"(?:\w+://)?(?:\[(?P<ipv6>[^\]]+)\]|(?P<host>[^:/]+))(?::(?P<port>\d+))?")
_PORT, _LAST_PORT = 9092, 65_535
_OF_THE_WEB = ("http://", "https://")


def reach(bootstrap_servers: str, hint: str) -> None:
    """Returns if one of the servers accepts connections. Raises CommandFailed with the reasons otherwise."""
    deadline = time.monotonic() + CONNECT_S
    reasons: dict[str, None] = {}
    for one in filter(None, map(str.strip, bootstrap_servers.split(","))):
        reason = _reason(one, max(0.1, deadline - time.monotonic()))
        if not reason:
            return
        reasons[reason] = None
    why = ", ".join(reasons) or "no address"
    raise CommandFailed(f"Kafka at {bootstrap_servers or '(nowhere)'} cannot be reached: {why}", hint)


def _reason(address: str, timeout_s: float) -> str:
    """Reason why the address accepts no connection; empty if it does."""
    found = _ADDRESS.fullmatch(address)
    if found is None or address.lower().startswith(_OF_THE_WEB):
        return f"'{address}' is no address: write HOST:PORT"
    host, port = found["ipv6"] or found["host"], int(found["port"] or _PORT)
    if not 0 < port <= _LAST_PORT:
        return f"{port} is no port: a port is 1 to {_LAST_PORT}"
    try:
        socket.create_connection((host, port), timeout_s).close()
    except socket.gaierror:
        return f"there is no host '{host}'"
    except TimeoutError:
        return f"no answer from {host}"
    except (OSError, OverflowError) as error:
        return (getattr(error, "strerror", None) or str(error)).lower()
    return ""
