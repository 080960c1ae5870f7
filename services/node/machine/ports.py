"""Ports: a free pair on loopback, outside the range that outgoing connections take theirs from."""

from __future__ import annotations

import errno
import random
import socket

# Linux gives outgoing connections ports from 32768 up. A client that keeps trying to reach a dead server's port in that
# range is sooner or later given that very port, connects to itself, and so holds it against the server's return.
RANGE = range(20_000, 32_000)
OTHERS = range(29_091, 29_095)
"""Ports of the brokers of the Compose files: somebody's own cluster may start there later."""


def choose_pair() -> int:
    """A random port that is free together with the next one. Raises OSError if none of 1,000 is."""
    for port in random.sample(RANGE, 1_000):
        if port not in OTHERS and is_free(port) and is_free(port + 1):
            return port
    raise OSError(f"no two neighbouring ports from {RANGE.start} to {RANGE.stop} are free")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that linger do not count
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen()
        except OSError:
            return False
        return True


def is_open(port: int) -> bool:
    """True if a process listens on the port, also if it does not answer."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) != errno.ECONNREFUSED
