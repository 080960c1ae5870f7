"""Costs of a copy's transactions, measured where they are made, beside the loop.

Source: MECHANISMS C5; the meaning of each number is in schemas/costs.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from holdfast.schemas.costs import TentativeCounts
from holdfast.services.kernel.dataflow.open_rows import OpenRows
from holdfast.services.worker.core.spent import Spent

LOOKED_AT = 64
"""Number of rows of a sink in a batch that are measured, at most, to estimate the others."""


class Meter:
    """Costs of one copy's transactions; used by one transaction at a time.

    Args:
        clock_ms: monotonic.
        cpu_ms: CPU time of the thread that asks.
    """

    def __init__(self, spent: Spent, clock_ms: Callable[[], float], cpu_ms: Callable[[], float]) -> None:
        self._spent, self._clock_ms, self._cpu_ms = spent, clock_ms, cpu_ms
        self._written = Counter[str]()
        self.took_ms = 0.0
        """The last transaction."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Measures one. What it raises says that nothing was committed, as far as anybody knows."""
        began_ms, began_cpu_ms = self._clock_ms(), self._cpu_ms()
        self._written.clear()
        try:
            yield
        except Exception:
            self._spent.aborted += 1
            raise
        finally:
            self.took_ms = self._clock_ms() - began_ms
            self._spent.transaction_ms += self.took_ms
            self._spent.transaction_cpu_ms += self._cpu_ms() - began_cpu_ms
        self._spent.transactions += 1
        for sink, size in self._written.items():
            self._spent.sink_bytes[sink] = self._spent.sink_bytes.get(sink, 0) + size

    def wrote(self, sink: str, values: Sequence[bytes | None]) -> None:
        """Rows of a sink, which are not looked at one by one."""
        self._written[sink] += size_about(values)

    def wrote_bytes(self, sink: str, size: int) -> None:
        """Rows of a sink of files."""
        self._written[sink] += size

    def tentative(self, query: str, rows: OpenRows, before: OpenRows) -> None:
        """Tentative rows of a query behind a transaction, and before it."""
        known = self._spent.tentative.get(query, TentativeCounts())
        self._spent.tentative[query] = TentativeCounts(
            known.published + rows.published - before.published,
            known.replaced + rows.replaced - before.replaced,
            known.withdrawn + rows.withdrawn - before.withdrawn,
            len(rows),
            fidelity=rows.fidelity,
        )


def size_about(values: Sequence[bytes | None]) -> int:
    """Bytes of the values, by the mean of LOOKED_AT of them."""
    some = values[:: max(1, len(values) // LOOKED_AT)]
    return sum(len(one) for one in some if one is not None) * len(values) // len(some) if some else 0
