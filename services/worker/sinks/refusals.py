"""Knowledge of one copy from failed transactions, kept over its producers.

A failed delivery is never repeated silently: each failure is counted, the pauses grow, `status` names the cause after
SAID_MS, and a repeated refusal ends the job (docs/decisions/0139).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from contextlib import suppress

from holdfast.services.kernel.errors import HoldfastError, Indefinite, InvalidRecord, Refused, Retriable, TopicGone
from holdfast.services.kernel.plurals import plural
from holdfast.services.log.kafka.cluster_seen import TRANSACTIONS
from holdfast.services.log.protocol import Described, Log

MOST_REFUSALS = 20
"""Number of refusals of one batch, without a committed row between, that ends the job; about a minute."""
FIRST_PAUSE_MS, LAST_PAUSE_MS = 50.0, 5_000.0
SAID_MS = 3_000.0
"""Time without delivery after which `status` reports it with its cause."""
EVENT_MS = 60_000.0
"""Time between two events about the same failure."""
BATCH_BYTES = 1_000_000
"""Most bytes of a batch of records, unless a topic has a lower limit."""


def shortage(log: Log, described: Mapping[str, Described]) -> str:
    """A text about the first topic with fewer replicas in sync than required; empty if there is none."""
    for topic, one in described.items():
        if one.in_sync is None:
            continue
        needed = int(log.config(topic).get("min.insync.replicas", 1))
        if one.in_sync < needed:
            has = plural(one.in_sync, "replica")
            return f"topic {topic} has {has} in sync and takes rows from {needed} on (its min.insync.replicas)"
    return ""


def gone(topics: Collection[str], described: Mapping[str, Described]) -> list[str]:
    """The topics that Kafka does not know."""
    return sorted(set(topics) - described.keys())


class Refusals:
    """Refusals of one copy's transactions.

    Attributes:
        limits: bytes of the largest batch of records (max.message.bytes), by topic that has refused rows.
        tentative: True if Kafka has refused tentative rows, so that the copy publishes none.
        written: all topics that the copy's transactions write.
        shortage: text about a topic with too few replicas in sync; Kafka's own error seldom names it.
    """

    def __init__(self, written: Collection[str] = ()) -> None:
        self.limits: dict[str, int] = {}
        self.tentative = False
        self._written = list(written)
        self.shortage = ""
        self._failures = self._refusals = 0
        self._delivered = -1
        self._since_ms = self._event_ms = math.inf
        self._cause = ""

    @property
    def batch_bytes(self) -> int | None:
        """The limit of a batch of records; None for the producer's default."""
        least = min(self.limits.values(), default=BATCH_BYTES)
        return least if least < BATCH_BYTES else None

    def learn(self, limits: Mapping[str, int]) -> bool:
        """Notes limits of topics. True if they are new."""
        new = any(self.limits.get(topic) != limit for topic, limit in limits.items())
        self.limits |= limits
        return new

    def judge(self, error: Retriable | Indefinite, log: Log, topics: list[str]) -> None:
        """Asks Kafka for the cause of a failed transaction. `topics` are those of its sinks.

        Raises:
            TopicGone: nothing was committed, and a topic no longer exists.
        """
        missing: list[str] = []
        if isinstance(error, Retriable):
            with suppress(HoldfastError):  # then the first error says more than that this was not answered
                missing = gone(topics, log.describe(topics))
        if missing:
            raise TopicGone(
                f"topic {', '.join(missing)} of a sink is gone, and with it the rows that were there: waiting for it, "
                "with those that have not been delivered"
            ) from error
        if isinstance(error, Retriable) or self._failures:  # the first lost connection costs no time
            self.explain(log)

    def explain(self, log: Log) -> None:
        """Asks Kafka whether a topic lacks replicas in sync: a topic that the transactions write, or Kafka's topic of
        transaction outcomes, which the copy may have no right to read."""
        with suppress(HoldfastError):
            self.shortage = shortage(log, log.describe(self._written))
            self.shortage = self.shortage or shortage(log, log.describe([TRANSACTIONS]))

    def failed(self, error: Exception, delivered: int, now_ms: float) -> float:
        """Notes a failed delivery; `delivered` is the last delivered batch.

        Returns:
            The pause before the next attempt, in milliseconds.
        """
        if delivered > self._delivered or not self._failures:
            self._failures = self._refusals = 0
            self._delivered = delivered
            self._since_ms = now_ms
            self._event_ms = now_ms + SAID_MS
        self._failures += 1
        self._refusals += isinstance(error, Refused)
        self._cause = str(error)
        if not isinstance(error, Refused):
            return 0.0
        return min(FIRST_PAUSE_MS * 2.0 ** (self._refusals - 1), LAST_PAUSE_MS)

    def over(self, batch: int, topics: str) -> InvalidRecord | None:
        """The error that ends the job; None if the refused batch is tried again."""
        if self._refusals < MOST_REFUSALS:
            return None
        return InvalidRecord(
            f"batch {batch} cannot be delivered to {topics}: it was refused {plural(self._refusals, 'time')}. "
            f"The last answer: {self._cause}"
        )

    def opened(self, delivered: int) -> None:
        """Notes the position that was read; the failed transaction may have been committed after all."""
        if delivered > self._delivered:
            self.forget()

    def forget(self) -> None:
        """Clears the failures, after committed rows or at the end of delivery."""
        self._failures = self._refusals = 0
        self._cause = ""
        self._since_ms = math.inf
        self._event_ms = math.inf
        self.shortage = ""

    def waits(self, now_ms: float) -> str:
        """A text that nothing is delivered, with the cause; empty before SAID_MS."""
        if now_ms - self._since_ms < SAID_MS:
            return ""
        seconds = round((now_ms - self._since_ms) / 1_000)
        why = ". Kafka's last answer: ".join(filter(None, (self.shortage, self._cause)))
        return f"no row was delivered for {seconds} s, in {plural(self._failures, 'attempt')}: {why}"

    def event(self, now_ms: float) -> str:
        """The text of `waits` for an event: first after SAID_MS, then every EVENT_MS; otherwise empty."""
        if now_ms < self._event_ms:
            return ""
        self._event_ms = now_ms + EVENT_MS
        return self.waits(now_ms)
