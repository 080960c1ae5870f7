"""A reader that is followed in a thread of its own, from entering to leaving."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Self

from holdfast.schemas.topics import Partition
from holdfast.services.log.protocol import Log


class Following(ABC):
    """Reads partitions from the first record that they still hold. `_turn` runs again and again in the thread."""

    def __init__(self, log: Log, name: str, partitions: Iterable[Partition]) -> None:
        self._reader = log.reader(name)
        self._reader.assign(log.offsets(partitions, "start"))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._reader.close()

    def _run(self) -> None:
        while not self._over.is_set():
            self._turn()

    @abstractmethod
    def _turn(self) -> None:
        """Polls the reader, and handles the new records."""
