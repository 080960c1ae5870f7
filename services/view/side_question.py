"""Questions to Kafka in a thread of their own, so that a view does not wait for the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SideQuestion(Generic[T]):
    """Asks questions of one caller in another thread, one question at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._found: list[T] = []
        self._failed: list[Exception] = []

    @property
    def under_way(self) -> bool:
        return self._thread is not None

    def ask(self, question: Callable[[], T], wait_s: float) -> T | None:
        """Returns the answer to this question, or to a question under way; None if there is no answer after wait_s.

        Raises the error of the question.
        """
        if self._thread is None:
            self._found = []
            self._failed = []
            # A daemon ends with the process: a question may take as long as the log's time-outs.
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
        except Exception as error:  # raised in the caller's thread
            self._failed.append(error)
