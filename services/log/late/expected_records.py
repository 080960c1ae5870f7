"""Reads records that must exist, and asks for the leader of a partition that gives none.

A reader returns no record and no end of a partition without a leader, and raises nothing. A log that waits
(services/log/kafka/waiting_log.py) reports the wait to the person once it is asked for that partition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.protocol import Chunk, Log, Reader
from holdfast.services.log.silence import Silence

STALLED_S = 1.0
ANSWER_S = 30.0
"""Seconds of silence after which an answering leader counts as stuck; a leader that answers sends its records much
sooner.
"""


class ExpectedRecords:
    """Polls a reader. Times are in seconds of the clock."""

    def __init__(self, log: Log, reader: Reader, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._reader = reader
        self._clock_s = clock_s
        self._silence = Silence(clock_s)
        self._asked_s = 0.0

    def poll(self, wanted: Sequence[Partition], timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        """Polls as `Reader.poll`. Raises Retriable if existing records do not arrive.

        Args:
            wanted: partitions of which a record, or the end, must come; empty: nothing need come.
        """

        def came(chunks: list[Chunk]) -> bool:
            return not wanted or any(chunk.partition in wanted for chunk in chunks)

        chunks = self._silence.during(lambda: self._reader.poll(timeout_s, max_messages), came)
        silent_s = self._silence.silent_s
        if silent_s == 0.0:
            self._asked_s = 0.0
        elif silent_s - self._asked_s >= STALLED_S:
            self._ask(wanted, silent_s)
        return chunks

    def _ask(self, wanted: Sequence[Partition], silent_s: float) -> None:
        """Waits until the partitions have leaders. Raises Retriable after ANSWER_S of
        silence with leaders that answer.
        """
        waited = Silence(self._clock_s)
        waited.during(lambda: self._log.offsets(wanted, "end"), lambda _: False)
        self._asked_s = silent_s
        if waited.silent_s >= STALLED_S:
            self._silence, self._asked_s = Silence(self._clock_s), 0.0  # a partition had no leader until now
        elif silent_s > ANSWER_S:
            raise Retriable(
                f"{wanted[0]}: nothing came for {ANSWER_S:g} s, though its leader answers, and its end is not reached: "
                "try again"
            )
