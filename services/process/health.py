"""Liveness and readiness of a process, for what restarts processes: systemd, Kubernetes, a person.

Live: its loop turns. Ready: it has read its log to the end, too, and Kafka answers. Nothing is looked at in advance.
Server: services/process/metrics_server.py; addresses: docs/metrics.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.log.protocol import Log
from holdfast.services.process.asking import Asking

STUCK_S = 30.0
"""A loop that has not turned for so long does not live; a batch of a slow operator of a user may take seconds."""


class Check(NamedTuple):
    """Result of a check. says: why it is not all right, or its state."""

    ok: bool
    says: str


class Health:
    """Health of one process. From any thread.

    Args:
        kind: worker, controller, recovery or driver.
        checks: by name, what must be all right for the process to be ready.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        checks: Mapping[str, Callable[[], Check]],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._kind, self._checks, self._clock_s = name, kind, checks, clock_s
        self._began_s = clock_s()
        self._turned_s: float | None = None

    def turned(self) -> None:
        """The loop has turned once more."""
        self._turned_s = self._clock_s()

    def live(self) -> tuple[bool, dict[str, Any]]:
        """True if it lives, and the answer as JSON. A process that starts lives."""
        return self._answer({"loop": self._loop(starting=True)})

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """True if it does its work, or could, and the answer as JSON."""
        return self._answer({"loop": self._loop(starting=False), **{name: ask() for name, ask in self._checks.items()}})

    def _loop(self, starting: bool) -> Check:
        turned_s, now_s = self._turned_s, self._clock_s()
        if turned_s is None:
            return Check(starting, f"starts for {now_s - self._began_s:.1f} s, and has not turned yet")
        if now_s - turned_s > STUCK_S:
            return Check(False, f"has not turned for {now_s - turned_s:.1f} s: its log says what it began last")
        return Check(True, f"turned {now_s - turned_s:.1f} s ago")

    def _answer(self, checks: Mapping[str, Check]) -> tuple[bool, dict[str, Any]]:
        ok = all(check.ok for check in checks.values())
        found = {name: check._asdict() for name, check in checks.items()}
        return ok, {"name": self._name, "kind": self._kind, "ok": ok, "checks": found}


def reading(caught_up: Callable[[], bool]) -> Callable[[], Check]:
    """Check that the process has read its log to the end as it was at the start."""

    def check() -> Check:
        return (
            Check(True, "read to its end") if caught_up() else Check(False, "still reads what was there at its start")
        )

    return check


def answering(log: Log, partition: Partition) -> Callable[[], Check]:
    """Check that Kafka tells the end of this partition in time."""
    asking = Asking(lambda: log.offsets([partition], "end"))

    def check() -> Check:
        try:
            asking.get()
        except HoldfastError as error:
            return Check(False, str(error))
        return Check(True, "Kafka answers")

    return check
