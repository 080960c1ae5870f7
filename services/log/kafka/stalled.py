"""Keeps a producer's thread from spinning while a broker gives no answers.

The thread of an idempotent producer of librdkafka 2.16 spins while a partition has five records in flight and more
ready, unless a request waits to be sent. A metadata request is such a request: it waits while the one request that may
be in flight is not answered, and the thread waits with it.

Source: docs/decisions/0159.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaException, Producer

from holdfast.services.log.kafka.cluster_seen import ClusterSeen

STALLED_S = 0.1
AGAIN_S = 1.0
"""Seconds until the next metadata request: a waiting one is dropped with its connection."""
FEWEST = 6
"""Fewest records, in flight and ready together, that can keep a thread busy."""
_HANDED_OVER_S = 0.001


class Stalled:
    """Watches one producer by the results of its polls."""

    def __init__(self, seen: ClusterSeen, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._seen = seen
        self._clock_s = clock_s
        self._waiting = 0
        self._due_s = math.inf

    def polled(self, producer: Producer, answered: bool = False) -> None:
        """Sends a metadata request once no record has been answered for STALLED_S.

        answered: true if the poll reported answers.
        """
        now_s, before, self._waiting = self._clock_s(), self._waiting, len(producer)
        if answered or self._waiting < max(FEWEST, before):
            self._due_s = math.inf
        elif self._due_s == math.inf:
            self._due_s = now_s + STALLED_S
        elif now_s >= self._due_s:
            self._due_s = now_s + AGAIN_S
            with suppress(KafkaException):  # the answer is not needed
                producer.list_topics(self._seen.topic, timeout=_HANDED_OVER_S)
