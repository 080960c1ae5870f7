"""The schemas that records of a source name, fetched beside the loop before the records are taken in.

So a batch is decoded without a question to the registry; while the registry is away the source waits, and says so.
Source: docs/decisions/0166.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

import numpy as np

from holdfast.services.hosting.blocking import Blocking
from holdfast.services.kernel.codecs.registered import Schemas, WriterSchema, ids
from holdfast.services.kernel.errors import HoldfastError

PAUSE_S = 1.0
"""Between two questions to a registry that is away."""
ASK_AGAIN_MS = 30_000
"""An id that the registry did not know is asked for again once records name it so much later."""


class Fetched:
    """Schemas of one source task.

    Args:
        schemas: of the registry.
        asks: runs questions beside the loop.

    waits: why records are kept out; or empty.
    """

    def __init__(self, schemas: Schemas, asks: Blocking, time_ms: Callable[[], int]) -> None:
        self._schemas, self._asks, self._time_ms = schemas, asks, time_ms
        self._found: dict[int, WriterSchema] = {}
        self._absent: dict[int, int] = {}
        self.known: Schemas = self
        self.waits = ""

    def find(self, id: int) -> WriterSchema | None:
        """The schema that the registry has given for it."""
        return self._found.get(id)

    def lacking(self, values: Sequence[bytes | None]) -> list[int]:
        """Ids that records name and of which nothing is known."""
        named = np.unique(ids(values)).tolist()
        again_ms = self._time_ms() - ASK_AGAIN_MS
        return [id for id in named if id >= 0 and id not in self._found and self._absent.get(id, 0) <= again_ms]

    def ask(self, lacking: Collection[int], then: Callable[[], None], pause_s: float = 0.0) -> None:
        """Asks until the registry has answered, then calls `then` in the loop. pause_s: before it asks."""

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
