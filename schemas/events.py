"""Events: records for people, tests and the console.

Source: PROTOCOL 1, JOBS "events --json".
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.decoders import Strict


class Alternative(msgspec.Struct, frozen=True, omit_defaults=True):
    """A scheme that recovery weighed for a unit.

    takes_ms: expected duration of a takeover; null: not known.
    cost: weighed cost of the secondary, where 1.0 of each kind is the primary's usage.
    phases_ms: duration by phase; null: not known.
    rejected: why the scheme was not chosen.
    """

    scheme: str
    takes_ms: float | None
    cost: float
    phases_ms: dict[str, float | None] = {}
    rejected: str = ""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of `holdfast events`.

    phases_ms: of a takeover (worker/unit/facts/takeover.py).
    topic, partition, offset: of the record that a reader refused.
    batch: the last one that the copy has done; -1: none.
    promise_ms: the recovery time that the user has asked for; 0: none.
    alternatives: every scheme, the chosen one first.
    predicted_ms: predicted phases of a judged takeover, beside the actual ones in phases_ms
        (recovery/core/adaptive/judging.py).
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
    promise_ms: float = 0.0
    alternatives: tuple[Alternative, ...] = ()
    predicted_ms: dict[str, float] = {}


_decoder = Strict(msgspec.json.Decoder(Event).decode)


def decode(data: bytes) -> Event:
    """Decodes an event. Raises msgspec.DecodeError on malformed bytes."""
    return _decoder.decode(data)


def encode(record: Event) -> bytes:
    return msgspec.json.encode(record)
