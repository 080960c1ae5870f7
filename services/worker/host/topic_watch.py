"""Asks beside the loop for the users' topics as they are now: the number of partitions and the id of each.

Only the copies that cut look, and only at what is known: no request is in a hot path, and one call a second serves all
copies of a worker. Source: PROTOCOL 3, docs/decisions/0025 and 0026.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.hosting.blocking import Blocking
from holdfast.services.log.protocol import Described, Log

LOOK_MS = 1_000.0
"""Between two requests; so long a new partition waits, and its first records with it."""
FORGOTTEN_MS = 60_000.0
"""A topic at which no copy has looked for so long is asked about no more."""

_log = get_logger()


class TopicWatch:
    """Answers from what the last request brought. asked: requests so far; answered: which of them is known."""

    def __init__(self, log: Log, blocking: Blocking) -> None:
        self._log, self._blocking = log, blocking
        self._known: dict[str, Described] = {}
        self._absent: frozenset[str] = frozenset()
        self._looked_ms: dict[str, float] = {}
        self._asking = False
        self._due_ms = -math.inf
        self.asked = self.answered = 0

    def of(self, topic: str, now_ms: float) -> Described | None:
        """The topic as it was a moment ago; None before the first answer, and for one that is not there."""
        if topic not in self._looked_ms:
            self.look()
        self._looked_ms[topic] = now_ms
        return self._known.get(topic)

    def absent(self, topic: str) -> bool:
        """Kafka has said that there is no such topic."""
        return topic in self._absent

    def look(self) -> None:
        """Something is strange: asks at the next turn."""
        self._due_ms = -math.inf

    def turn(self, now_ms: float) -> None:
        """Takes an answer that has come, and asks again when it is time."""
        self._blocking.poll()
        if self._asking or now_ms < self._due_ms or not self._looked_ms:
            return
        self._looked_ms = {topic: ms for topic, ms in self._looked_ms.items() if now_ms - ms < FORGOTTEN_MS}
        wanted = sorted(self._looked_ms)
        self._asking, self._due_ms = True, now_ms + LOOK_MS
        self.asked += 1
        self._blocking.run(lambda: self._log.describe(wanted), lambda outcome: self._take(wanted, outcome))

    def close(self) -> None:
        self._blocking.close()

    def _take(self, wanted: list[str], outcome: Mapping[str, Described] | Exception) -> None:
        """No answer changes nothing: what is not known is asked again."""
        self._asking = False
        if isinstance(outcome, Exception):
            _log.info("topics not described", cause=str(outcome))
            return
        self._known, self._absent = dict(outcome), frozenset(wanted) - outcome.keys()
        self.answered = self.asked
