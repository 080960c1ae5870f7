"""Fetches the schemas that records of a source name, beside the loop and before the records are used.

So decoding a batch needs no request to the registry. While the registry is away, the source waits and reports it.
Source: docs/decisions/0166.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

import numpy as np

from holdfast.services.hosting.blocking_calls import Blocking
from holdfast.services.kernel.codecs.registered import Schemas, WriterSchema, ids
from holdfast.services.kernel.errors import HoldfastError

PAUSE_S = 1.0
"""Pause before the next request to a registry that is away."""
ASK_AGAIN_MS = 30_000
"""Time after which an id unknown to the registry is requested again, when records name it."""


class Fetched:
    """The schemas of one source task.

    Args:
        schemas: the registry.
        asks: runs requests beside the loop.

    Attributes:
        waits: reason why records are held back; empty if none are.
    """

    def __init__(self, schemas: Schemas, asks: Blocking, time_ms: Callable[[], int]) -> None:
        self._schemas = schemas
        self._asks = asks
        self._time_ms = time_ms
        self._found: dict[int, WriterSchema] = {}
        self._absent: dict[int, int] = {}
        self.known: Schemas = self
        self.waits = ""

    def find(self, id: int) -> WriterSchema | None:
        """The schema with this id, if the registry has returned it."""
        return self._found.get(id)

    def lacking(self, values: Sequence[bytes | None]) -> list[int]:
        """Ids in the records that are neither known nor recently requested."""
        named = np.unique(ids(values)).tolist()
        again_ms = self._time_ms() - ASK_AGAIN_MS
        return [id for id in named if id >= 0 and id not in self._found and self._absent.get(id, 0) <= again_ms]

    def ask(self, lacking: Collection[int], then: Callable[[], None], pause_s: float = 0.0) -> None:
        """Requests schemas until the registry answers, then calls `then` in the loop. `pause_s` is the pause before the
        first request."""

        def call() -> dict[int, WriterSchema | None]:
            time.sleep(pause_s)
            return {id: self._schemas.find(id) for id in lacking}

        def done(outcome: dict[int, WriterSchema | None] | Exception) -> None:
            if isinstance(outcome, HoldfastError):
                self.waits = str(outcome)
                self.ask(lacking, then, PAUSE_S)
                return
            if isinstance(outcome, Exception):
                raise outcome
            self._found |= {id: schema for id, schema in outcome.items() if schema is not None}
            self._absent |= {id: self._time_ms() for id, schema in outcome.items() if schema is None}
            self.waits = ""
            then()

        self._asks.run(call, done, "registry")
