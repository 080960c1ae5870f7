"""Records into the partitions of a topic, counted as they are acknowledged, paced where a rate is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import msgspec

from holdfast.schemas.topics import Partition
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.plurals import plural
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.log.answers import Unacknowledged
from holdfast.services.log.patience import Patience, Wait
from holdfast.services.log.protocol import Appender

BURST_S = 0.025
"""Seconds' worth of records in a burst, with a rate: a burst is a request to Kafka, whose cost hardly depends on the
number of records.
"""

MOST_WAITING, MOST_WAITING_BYTES = 250_000, 64 * 1024 * 1024
"""Records on their way at most, half of what the producer queues: an append to a full queue waits for ever."""
_LOOK_AGAIN_S = 0.002

KeyOf = Callable[[bytes], bytes | None]


class Writer:
    """Writes to one topic.

    written: number of records handed over.
    acknowledged: number of records that Kafka has acknowledged.

    Without a key record i goes to partition i modulo their number, so that partitions fill evenly and every run is
    alike.
    """

    def __init__(self, appender: Appender, topic: str, partitions: int, key: str | None = None) -> None:
        self._appender = appender
        self._partitions = [Partition(topic, index) for index in range(partitions)]
        self._by_key = Partition(topic, -1)
        self._key_of = None if key is None else key_reader(key)
        self._field = key
        self.written = self.acknowledged = self._bytes = 0

    @property
    def full(self) -> bool:
        """True if more records would exceed the queue's limits; the bytes of waiting records are estimated by the mean
        size.
        """
        waiting = self.written - self.acknowledged
        return waiting >= MOST_WAITING or waiting * self._bytes >= MOST_WAITING_BYTES * max(1, self.written)

    def write(self, values: list[bytes]) -> None:
        """Waits while too many are on their way. Raises Retriable or InvalidRecord for what Kafka refuses.

        Raises:
            UnusableFile: none of the first records has the field of the key.
        """
        if self._field is not None and self.written == 0:
            _check_key(self._field, values)
        if self._key_of is None:
            self._write_in_turn(values)
        else:
            answered = partial(self._answered, 1)
            for value in values:
                self._appender.append(self._by_key, value, key=self._key_of(value), done=answered)
        self.written += len(values)
        self._bytes += sum(map(len, values))
        self._appender.poll()

    def poll(self) -> None:
        self._appender.poll()

    def _write_in_turn(self, values: list[bytes]) -> None:
        """Answers come in the order of a partition, so only the last record of each needs one."""
        count = len(self._partitions)
        append = self._appender.append
        for index, partition in enumerate(self._partitions):
            share = values[(index - self.written) % count :: count]
            for value in share[:-1]:
                append(partition, value)
            if share:
                append(partition, share[-1], done=partial(self._answered, len(share)))

    def _answered(self, count: int, error: Exception | None, _offset: int) -> None:
        if error is not None:
            raise error
        self.acknowledged += count


def wait_for_answers(
    writer: Writer,
    enough: Callable[[], bool],
    patience: Patience,
    stopped: Callable[[], bool] = lambda: False,
    show: Callable[[], None] = lambda: None,
) -> None:
    """Returns once enough records are acknowledged, or when `stopped`. Raises Retriable: none was for the limit."""
    count = writer.written - writer.acknowledged
    with Wait(patience, f"Kafka to take {plural(count, 'record')}") as wait:
        acknowledged = writer.acknowledged
        while not enough() and not stopped():
            writer.poll()
            show()
            if writer.acknowledged > acknowledged:
                acknowledged = writer.acknowledged
                wait.begin()
            else:
                wait.still(Unacknowledged(f"{acknowledged:,} to stay, the others on their way"))
                patience.sleep(_LOOK_AGAIN_S)


def key_reader(field: str) -> KeyOf:
    """Reads a field of a JSON object as a key: text unchanged, other values as their JSON; None if there is none."""
    record = msgspec.defstruct("Record", [("key", msgspec.Raw, msgspec.Raw(b"null"))], rename={"key": field})
    decoder = msgspec.json.Decoder(record)

    def key_of(value: bytes) -> bytes | None:
        try:
            raw = bytes(decoder.decode(value).key)  # type: ignore[attr-defined]
            if raw == b"null":
                return None
            return msgspec.json.decode(raw, type=str).encode() if raw.startswith(b'"') else raw
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None

    return key_of


def _check_key(field: str, values: Sequence[bytes]) -> None:
    """Records without a key would go to any partition, and a table cannot do with them."""
    known = dict[str, None]()
    for value in values:
        try:
            record = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        if isinstance(record, dict):
            if field in record:
                return
            known |= dict.fromkeys(record)
    if not values:
        return
    hint = suggest(field, known) if known else "--key names a field of JSON objects, and these records are none"
    raise UnusableFile(f"none of the first {plural(len(values), 'record')} has a field '{field}'", hint)


def paced(
    blocks: Iterable[list[bytes]],
    rate_per_s: float,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[list[bytes]]:
    """The records in bursts, none before its time; ends when `stopped`."""
    started, given = clock(), 0
    burst = max(1, int(rate_per_s * BURST_S))
    for block in blocks:
        for begin in range(0, len(block), burst):
            some = block[begin : begin + burst]
            while (early := started + given / rate_per_s - clock()) > 0 and not stopped():
                sleep(min(early, 0.1))
            if stopped():
                return
            yield some
            given += len(some)
