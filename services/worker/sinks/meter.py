"""Measures the costs of a copy's transactions, beside the loop.

Source: MECHANISMS C5; schemas/costs.py defines each number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from holdfast.schemas.costs import TentativeCounts
from holdfast.services.kernel.dataflow.open_rows import OpenRows
from holdfast.services.worker.core.spent import Spent

LOOKED_AT = 64
"""Most rows of a sink in a batch that are measured to estimate the others."""


class Meter:
    """The costs of one copy's transactions, one transaction at a time.

    Args:
        clock_ms: monotonic time.
        cpu_ms: CPU time of the calling thread.
    """

    def __init__(self, spent: Spent, clock_ms: Callable[[], float], cpu_ms: Callable[[], float]) -> None:
        self._spent = spent
        self.clock_ms = clock_ms
        self._cpu_ms = cpu_ms
        self._written = Counter[str]()
        self.took_ms = 0.0
        """Time of the last transaction, milliseconds."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Measures a transaction. An exception counts it as not committed."""
        began_ms, began_cpu_ms = self.clock_ms(), self._cpu_ms()
        self._written.clear()
        try:
            yield
        except Exception:
            self._spent.aborted += 1
            raise
        finally:
            self.took_ms = self.clock_ms() - began_ms
            self._spent.transaction_ms += self.took_ms
            self._spent.transaction_cpu_ms += self._cpu_ms() - began_cpu_ms
        self._spent.transactions += 1
        for sink, size in self._written.items():
            self._spent.sink_bytes[sink] = self._spent.sink_bytes.get(sink, 0) + size

    def wrote(self, sink: str, values: Sequence[bytes | None]) -> None:
        """Counts rows of a sink, estimated from a sample of them."""
        self._written[sink] += size_about(values)

    def wrote_bytes(self, sink: str, size: int) -> None:
        """Counts bytes of a sink of files."""
        self._written[sink] += size

    def tentative(self, query: str, rows: OpenRows, before: OpenRows) -> None:
        """Counts the tentative rows of a query, from their state after and before a transaction."""
        known = self._spent.tentative.get(query, TentativeCounts())
        self._spent.tentative[query] = TentativeCounts(
            known.published + rows.published - before.published,
            known.replaced + rows.replaced - before.replaced,
            known.withdrawn + rows.withdrawn - before.withdrawn,
            len(rows),
            fidelity=rows.fidelity,
        )


def size_about(values: Sequence[bytes | None]) -> int:
    """The estimated bytes of the values, from about LOOKED_AT of them."""
    some = values[:: max(1, len(values) // LOOKED_AT)]
    return sum(len(one) for one in some if one is not None) * len(values) // len(some) if some else 0
