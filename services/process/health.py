"""Liveness and readiness of a process, for systemd, Kubernetes or a person that restarts processes.

Live: its loop turns. Ready: it has also read its log to the end, and Kafka answers. Checks run only on request. Server:
    services/process/metrics_server.py; addresses: docs/metrics.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.log.protocol import Log
from holdfast.services.process.repeated_question import RepeatedQuestion

STUCK_S = 30.0
"""Seconds without a turn after which a loop counts as dead; a batch of a user's slow operator may take seconds."""


class Check(NamedTuple):
    """Result of a check.

    says: its state, or the reason of a failure.
    """

    ok: bool
    says: str


class Health:
    """Health of one process, from any thread.

    Args:
        kind: worker, controller, recovery or driver.
        checks: conditions for readiness, by name.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        checks: Mapping[str, Callable[[], Check]],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._kind = kind
        self._checks = checks
        self._clock_s = clock_s
        self._began_s = clock_s()
        self._turned_s: float | None = None

    def turned(self) -> None:
        """Notes a turn of the loop."""
        self._turned_s = self._clock_s()

    def live(self) -> tuple[bool, dict[str, Any]]:
        """True if the process lives, and the answer as JSON. A process that starts counts as live."""
        return self._answer({"loop": self._loop(starting=True)})

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """True if the process can do its work, and the answer as JSON."""
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
    """Check that the process has read its log to the end at the time of its start."""

    def check() -> Check:
        return (
            Check(True, "read to its end") if caught_up() else Check(False, "still reads what was there at its start")
        )

    return check


def answering(log: Log, partition: Partition) -> Callable[[], Check]:
    """Check that Kafka answers in time with the end of this partition."""
    asking = RepeatedQuestion(lambda: log.offsets([partition], "end"))

    def check() -> Check:
        try:
            asking.get()
        except HoldfastError as error:
            return Check(False, str(error))
        return Check(True, "Kafka answers")

    return check
