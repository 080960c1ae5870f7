"""A steady stream of records into a topic, from a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bench.rig.followed import DEADLINE_S
from holdfast.schemas.topics import Partition
from holdfast.services.log.protocol import Appender

NAP_S = 0.005
MOST_AT_ONCE = 2000


class Feeder:
    """Appends record(0), record(1), ... at a rate, until `stop`. sent_ms[i]: when record i was appended.

    Args:
        topic: or the partitions that take the records in turn.
    """

    def __init__(
        self,
        appender: Appender,
        topic: str | Sequence[Partition],
        rate_per_s: float,
        record: Callable[[int], bytes],
        partitions: int = 1,
    ) -> None:
        self._appender = appender
        self._rate_per_s = rate_per_s
        self._record = record
        self._homes = [Partition(topic, n) for n in range(partitions)] if isinstance(topic, str) else list(topic)
        self._over = threading.Event()
        self._held = threading.Event()
        self._error: Exception | None = None
        self.sent_ms: list[float] = []
        self._thread = threading.Thread(target=self._run, name=f"feeding {self._homes[0].topic}", daemon=True)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Appends nothing meanwhile, and does not make up for it."""
        self._held.set()
        try:
            yield
        finally:
            self._held.clear()

    def stop(self) -> None:
        """Stops the feeder. Raises the error of its thread."""
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._feed()
            self._appender.flush(DEADLINE_S)
        except Exception as error:
            self._error = error
        finally:
            self._appender.close()

    def _feed(self) -> None:
        started = time.perf_counter()
        while not self._over.is_set():
            while self._held.is_set() and not self._over.is_set():
                time.sleep(NAP_S)
                started = time.perf_counter() - len(self.sent_ms) / self._rate_per_s
            due = int((time.perf_counter() - started) * self._rate_per_s)
            first = len(self.sent_ms)
            for index in range(first, min(due, first + MOST_AT_ONCE)):
                self.sent_ms.append(time.time() * 1000)
                self._appender.append(self._homes[index % len(self._homes)], self._record(index))
            self._appender.poll()
            time.sleep(NAP_S)
