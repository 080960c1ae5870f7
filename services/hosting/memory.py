"""Ends a process that fills its memory, before the kernel ends any process of the machine.

Source: PROTOCOL 5, docs/decisions/0062. The watchdog checks it ten times a second, because a batch may take gigabytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from holdfast.services.process.usage import resident_bytes

NEAR = 0.9
"""The share of the limit at which the process ends. The rest is room for a batch between two checks."""
MIB = 1024 * 1024


class Memory:
    """The memory of one process.

    Args:
        limit_mb: most resident memory, MiB; 0 for no limit.

    Attributes:
        grower: the unit during whose work the process has grown most; empty if unknown.
    """

    def __init__(self, limit_mb: int, read: Callable[[], int] = resident_bytes) -> None:
        self._limit_mb = limit_mb
        self._read = read
        self._before = read() if limit_mb else 0
        self._grown: Counter[str] = Counter()

    @property
    def limited(self) -> bool:
        return self._limit_mb > 0

    def look(self, unit: str) -> str:
        """The reason why the process must end now; empty if it need not. `unit` is the unit whose work the process
        does."""
        if not self._limit_mb:
            return ""
        now = self._read()
        self._grown[unit] += now - self._before
        self._before = now
        if now < NEAR * self._limit_mb * MIB:
            return ""
        most = f", most of what it has grown by at the work of {self.grower}" if self.grower else ""
        return f"its memory is {now // MIB} MiB, near the limit HOLDFAST_MEMORY_MB={self._limit_mb}{most}"

    @property
    def grower(self) -> str:
        units = [(grown, unit) for unit, grown in self._grown.items() if unit and grown > 0]
        return max(units)[1] if units else ""
