"""Asking beside: a question to Kafka in a thread of its own, so that what is shown does not wait for its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Beside(Generic[T]):
    """Questions of one thread, one at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._found: list[T] = []
        self._failed: list[Exception] = []

    @property
    def under_way(self) -> bool:
        return self._thread is not None

    def ask(self, question: Callable[[], T], wait_s: float) -> T | None:
        """The answer, or what it raises, to this question or to the one under way; None: it is not there yet."""
        if self._thread is None:
            self._found, self._failed = [], []
            # It ends with the process: a question may take as long as Kafka is waited for.
            self._thread = threading.Thread(target=self._run, args=(question,), name="asks-kafka", daemon=True)
            self._thread.start()
        self._thread.join(wait_s)
        if self._thread.is_alive():
            return None
        self._thread = None
        if self._failed:
            raise self._failed[0]
        return self._found[0]

    def _run(self, question: Callable[[], T]) -> None:
        try:
            self._found.append(question())
        except Exception as error:  # raised where it was asked
            self._failed.append(error)
