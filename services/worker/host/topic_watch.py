"""Asks Kafka beside the loop for the present partitions and id of each user's topic.

Only copies that cut read the answers, and they read only known ones. So no request is in a hot path, and one call a
second serves all copies of a worker. Source: PROTOCOL 3, docs/decisions/0025 and 0026.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.hosting.blocking_calls import Blocking
from holdfast.services.log.protocol import Described, Log

LOOK_MS = 1_000.0
"""Time between two requests, which is the longest delay for the records of a new partition."""
FORGOTTEN_MS = 60_000.0
"""Time without a reader after which a topic is dropped from the requests."""

_log = get_logger()


class TopicWatch:
    """The topics as of the last request.

    Attributes:
        asked: number of requests so far.
        answered: number of the last answered request.
    """

    def __init__(self, log: Log, blocking: Blocking) -> None:
        self._log = log
        self._blocking = blocking
        self._known: dict[str, Described] = {}
        self._absent: frozenset[str] = frozenset()
        self._looked_ms: dict[str, float] = {}
        self._asking = False
        self._due_ms = -math.inf
        self.asked = self.answered = 0

    def of(self, topic: str, now_ms: float) -> Described | None:
        """The topic as of the last request; None before the first answer, and for a missing topic."""
        if topic not in self._looked_ms:
            self.ask_soon()
        self._looked_ms[topic] = now_ms
        return self._known.get(topic)

    def absent(self, topic: str) -> bool:
        """True if Kafka has answered that the topic does not exist."""
        return topic in self._absent

    def ask_soon(self) -> None:
        """Requests all topics in the next turn."""
        self._due_ms = -math.inf

    def turn(self, now_ms: float) -> None:
        """Applies an answer, and sends the next request when it is due."""
        self._blocking.poll()
        if self._asking or now_ms < self._due_ms or not self._looked_ms:
            return
        self._looked_ms = {topic: ms for topic, ms in self._looked_ms.items() if now_ms - ms < FORGOTTEN_MS}
        wanted = sorted(self._looked_ms)
        self._asking = True
        self._due_ms = now_ms + LOOK_MS
        self.asked += 1
        self._blocking.run(lambda: self._log.describe(wanted), lambda outcome: self._take(wanted, outcome))

    def close(self) -> None:
        self._blocking.close()

    def _take(self, wanted: list[str], outcome: Mapping[str, Described] | Exception) -> None:
        """Applies the outcome of a request. An error changes nothing; the next request asks again."""
        self._asking = False
        if isinstance(outcome, Exception):
            _log.info("topics not described", cause=str(outcome))
            return
        self._known = dict(outcome)
        self._absent = frozenset(wanted) - outcome.keys()
        self.answered = self.asked
