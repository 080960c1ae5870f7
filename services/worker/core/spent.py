"""Counters of one copy's costs. The code that does the work counts; heartbeats and metrics read.

Source: MECHANISMS C5 and A3; schemas/costs.py defines each number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdfast.schemas.checkpoints import Entry
from holdfast.schemas.costs import TentativeCounts
from holdfast.services.worker.core.edges import EdgeCounts

MANY_ENTRIES = 1_000_000


@dataclass(slots=True)
class MeanSize:
    """The mean size of an entry of the state without tombstones. Newer entries have more weight."""

    entries: int = 0
    bytes: int = 0

    def add(self, some: Sequence[Entry], size: int) -> None:
        """size: bytes of their keys and values."""
        deleted = [key for key, value in some if value is None]
        self.entries += len(some) - len(deleted)
        self.bytes += size - sum(map(len, deleted))
        if self.entries > MANY_ENTRIES:
            self.entries, self.bytes = self.entries // 2, self.bytes // 2

    def of(self, keys: int) -> int:
        """The estimated bytes of `keys` keys; 0 if no entry is known."""
        return keys * self.bytes // self.entries if self.entries else 0


@dataclass(slots=True)
class Spent:
    """The costs of one copy since it was placed here, including rebuilds.

    Attributes:
        marked_ms: clock time at which the newest valid marker was read; None if none was.
        entry: mean size of an entry of the state.
        edges: counts of the batches up to the copy's last one.
        latencies, latency_ms, waits_since_ms: see core/latency.py.
    """

    cpu_ms: float = 0.0
    processed: int = 0
    process_ms: float = 0.0
    captures: int = 0
    capture_ms: float = 0.0
    applies: int = 0
    apply_ms: float = 0.0
    checkpoint_bytes: int = 0
    run_bytes: int = 0
    sent_bytes: int = 0
    deploy_ms: float | None = None
    restore_ms: float | None = None
    restore_bytes: int = 0
    receive_ms: float | None = None
    send_ms: float | None = None
    open_ms: float | None = None
    replay_ms: float | None = None
    restore_cpu_ms: float | None = None
    transactions: int = 0
    transaction_ms: float = 0.0
    transaction_cpu_ms: float = 0.0
    aborted: int = 0
    sink_bytes: dict[str, int] = field(default_factory=dict)
    tentative: dict[str, TentativeCounts] = field(default_factory=dict)
    latencies: int = 0
    latency_ms: int = 0
    waits_since_ms: int = 0
    marked_ms: float | None = None
    entry: MeanSize = field(default_factory=MeanSize)
    edges: EdgeCounts = field(default_factory=EdgeCounts)

    def cpu(self, clock_ms: Callable[[], float]) -> CpuCount:
        """Counts the CPU time of a `with` block, unless it raises. `clock_ms` is the CPU time of this thread."""
        return CpuCount(self, clock_ms)

    def began_run(self) -> None:
        self.captures += 1
        self.run_bytes = 0

    def restored(self, entries: int, size: int, took_ms: float, cpu_ms: float = 0.0) -> None:
        """Counts the rebuild of an image. `cpu_ms` is the CPU time of the restoring thread."""
        self.restore_ms = took_ms
        self.restore_bytes = size
        self.restore_cpu_ms = cpu_ms
        self.entry = MeanSize(entries, size)

    def appended(self, size: int) -> None:
        """Counts a record of a run that was appended to the checkpoint log."""
        self.checkpoint_bytes += size
        self.run_bytes += size


class CpuCount:
    """The CPU time of one block. It is a class because a generator would double the cost in each turn of a copy."""

    __slots__ = ("_began_ms", "_clock_ms", "_spent")

    def __init__(self, spent: Spent, clock_ms: Callable[[], float]) -> None:
        self._spent = spent
        self._clock_ms = clock_ms
        self._began_ms = 0.0

    def __enter__(self) -> None:
        self._began_ms = self._clock_ms()

    def __exit__(self, raised: type[BaseException] | None, *of: object) -> None:
        if raised is None:
            self._spent.cpu_ms += self._clock_ms() - self._began_ms
