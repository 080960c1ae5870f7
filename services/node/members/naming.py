"""Naming: what the processes of a supervisor are called, so that several supervisors can share a Kafka.

Beside an embedded Kafka there is one supervisor: its workers are `worker-1`, `worker-2`, in invented zones. On
a Kafka that others share every name begins with the host, and the host is the zone: a standby is on another host.
"""

from __future__ import annotations

import hashlib
import re
import socket

MAX_HOST = 40
ZONES = 3


class Naming:
    """The names of one supervisor.

    host: unique among the supervisors that share a Kafka; empty with an embedded Kafka.

    Args:
        zone: zone of all workers here; empty: the module's default.
    """

    def __init__(self, host: str, zone: str = "") -> None:
        self.host = host
        self._zone = zone
        self._ours = re.compile(rf"{re.escape(self.name(''))}(worker|spark)-\d+")

    def name(self, what: str) -> str:
        """A full name, such as `worker-1`, or `db1-worker-1`."""
        return f"{self.host}-{what}" if self.host else what

    def is_ours(self, worker: str) -> bool:
        """A worker or driver of that name is one of this supervisor's, now or with other settings."""
        return self._ours.fullmatch(worker) is not None

    def zone(self, number: int) -> str:
        """The name of the worker or driver with this number."""
        return self._zone or self.host or f"zone-{(number - 1) % ZONES + 1}"


def machine_name() -> str:
    """The machine's name as a host: lower case letters, digits, - and _; a long one is cut, and stays unique."""
    found = socket.gethostname().lower()
    safe = re.sub(r"[^a-z0-9_-]+", "-", found).strip("-_") or "host"
    if len(safe) <= MAX_HOST:
        return safe
    return f"{safe[: MAX_HOST - 9]}-{hashlib.sha256(found.encode()).hexdigest()[:8]}"
