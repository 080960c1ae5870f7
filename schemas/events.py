"""Events: records for people, tests and the console.

Source: PROTOCOL 1, JOBS "events --json".
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.reading import Strict


class Alternative(msgspec.Struct, frozen=True, omit_defaults=True):
    """A scheme that recovery weighed for a unit: how long a takeover would take and why it was not chosen; cost: of the
    secondary, weighed, where 1.0 of each kind is what the primary uses. takes_ms and phases are null where not known.
    """

    scheme: str
    takes_ms: float | None
    cost: float
    phases_ms: dict[str, float | None] = {}
    rejected: str = ""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of `holdfast events`.

    phases_ms: of a takeover (worker/unit/takeover.py).
    topic, partition, offset: of the record that a reader refused.
    batch: the last one that the copy has done; -1: none.
    promise_ms: the recovery time that the user has asked for; 0: none.
    alternatives: every scheme, the chosen first.
    predicted_ms: of a takeover that was judged, beside phases_ms, which it took (recovery/core/adaptive/judging.py).
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
    """Raises msgspec.DecodeError on anything else."""
    return _decoder.decode(data)


def encode(record: Event) -> bytes:
    return msgspec.json.encode(record)
