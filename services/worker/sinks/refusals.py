"""Lessons of one copy from transactions that failed, whichever producer made them.

No failed delivery is repeated in silence: each is counted, the pause before the next one grows, `status` names the
cause after SAID_MS, and a refusal that repeats ends the job (docs/decisions/0139).
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
"""So many refusals of the same batch, without a row committed between them, end the job: about a minute."""
FIRST_PAUSE_MS, LAST_PAUSE_MS = 50.0, 5_000.0
SAID_MS = 3_000.0
"""From then on `status` says that nothing is delivered, and why."""
EVENT_MS = 60_000.0
"""Between two events about the same standstill."""
BATCH_BYTES = 1_000_000
"""Records that the producer puts together unless a topic takes less."""


def shortage(log: Log, described: Mapping[str, Described]) -> str:
    """Words for the first topic with fewer replicas in sync than it asks for; empty: there is none."""
    for topic, one in described.items():
        if one.in_sync is None:
            continue
        needed = int(log.config(topic).get("min.insync.replicas", 1))
        if one.in_sync < needed:
            has = plural(one.in_sync, "replica")
            return f"topic {topic} has {has} in sync and takes rows from {needed} on (its min.insync.replicas)"
    return ""


def gone(topics: Collection[str], described: Mapping[str, Described]) -> list[str]:
    """Topics that Kafka does not know."""
    return sorted(set(topics) - described.keys())


class Refusals:
    """Refusals of one copy's transactions.

    limits: bytes of the largest batch that a topic takes (its max.message.bytes), for topics that have refused rows.
    tentative: Kafka has refused tentative rows: the copy publishes none any more.
    written: every topic that the copy's transactions write.
    shortage: a topic with fewer replicas in sync than it asks for, in words; Kafka's own answer seldom says so.
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
        """Limit of one batch of records; None: as much as the producer likes."""
        least = min(self.limits.values(), default=BATCH_BYTES)
        return least if least < BATCH_BYTES else None

    def learn(self, limits: Mapping[str, int]) -> bool:
        """Notes what topics take; True if that was not known."""
        new = any(self.limits.get(topic) != limit for topic, limit in limits.items())
        self.limits |= limits
        return new

    def judge(self, error: Retriable | Indefinite, log: Log, topics: list[str]) -> None:
        """Asks Kafka why a transaction failed. topics: those of its sinks.

        Raises:
            TopicGone: nothing was committed, and Kafka knows one of the topics no more.
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
        """Asks Kafka whether a topic that the transactions need waits for replicas: one that they write, or Kafka's own
        with their outcomes, which a copy may have no right to see.
        """
        with suppress(HoldfastError):
            self.shortage = shortage(log, log.describe(self._written))
            self.shortage = self.shortage or shortage(log, log.describe([TRANSACTIONS]))

    def failed(self, error: Exception, delivered: int, now_ms: float) -> float:
        """Notes a failed delivery. delivered: the last batch that is.

        Returns:
            How long to wait before the next one, in milliseconds.
        """
        if delivered > self._delivered or not self._failures:
            self._failures = self._refusals = 0
            self._delivered, self._since_ms, self._event_ms = delivered, now_ms, now_ms + SAID_MS
        self._failures += 1
        self._refusals += isinstance(error, Refused)
        self._cause = str(error)
        if not isinstance(error, Refused):
            return 0.0
        return min(FIRST_PAUSE_MS * 2.0 ** (self._refusals - 1), LAST_PAUSE_MS)

    def over(self, batch: int, topics: str) -> InvalidRecord | None:
        """Why the job ends; None: it is tried again. batch, topics: of what was refused."""
        if self._refusals < MOST_REFUSALS:
            return None
        return InvalidRecord(
            f"batch {batch} cannot be delivered to {topics}: it was refused {plural(self._refusals, 'time')}. "
            f"The last answer: {self._cause}"
        )

    def opened(self, delivered: int) -> None:
        """The position is read: what failed last may still have been committed."""
        if delivered > self._delivered:
            self.forget()

    def forget(self) -> None:
        """Rows were committed, or the copy delivers no more."""
        self._failures = self._refusals = 0
        self._cause, self._since_ms, self._event_ms = "", math.inf, math.inf
        self.shortage = ""

    def waits(self, now_ms: float) -> str:
        """Message that nothing is delivered, and why; empty for a standstill shorter than SAID_MS."""
        if now_ms - self._since_ms < SAID_MS:
            return ""
        seconds = round((now_ms - self._since_ms) / 1_000)
        why = ". Kafka's last answer: ".join(filter(None, (self.shortage, self._cause)))
        return f"no row was delivered for {seconds} s, in {plural(self._failures, 'attempt')}: {why}"

    def event(self, now_ms: float) -> str:
        """The same for an event: at first after SAID_MS, then each EVENT_MS; else empty."""
        if now_ms < self._event_ms:
            return ""
        self._event_ms = now_ms + EVENT_MS
        return self.waits(now_ms)
