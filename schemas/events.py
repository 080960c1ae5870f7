"""What happened, for people, tests and the console.

Source: PROTOCOL 1, JOBS "events --json".
"""

from __future__ import annotations

import msgspec

from schemas.reading import Strict


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of `holdfast events`. phases_ms: detection, activation, replay, first_output (worker/unit/takeover.py).

    topic, partition, offset: of the record that a reader refused. batch: the last one that the copy has done; -1: none.
    """

    time_ms: int
    kind: str
    job: str = ""
    unit: str = ""
    epoch: int = -1
    worker: str = ""
    detail: str = ""
    phases_ms: dict[str, float] = {}
    topic: str = ""
    partition: int = -1
    offset: int = -1
    batch: int = -1


_decoder = Strict(msgspec.json.Decoder(Event).decode)


def decode(data: bytes) -> Event:
    """Raises msgspec.DecodeError on anything else."""
    return _decoder.decode(data)


def encode(record: Event) -> bytes:
    return msgspec.json.encode(record)
