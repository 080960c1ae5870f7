"""A process that starts late reads a decided log from a snapshot near the end, not from the first record.

Source: PROTOCOL 1. Snapshots are in the topic itself, and are searched from the end in ever larger stretches, as by
    `last`: no second topic with their places can disagree with this one. Measured with 150,000 assignments: reading all
    of them took a controller 45 s record by record. Records below a snapshot may be trimmed, also during the scan: then
    the scan begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from holdfast.schemas.topics import Partition
from holdfast.services.decisions.snapshots import Upto, base_of, oldest_of
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.errors import PositionGone, Retriable, StateCorrupted
from holdfast.services.log.protocol import Log, Message

LAST_STRETCH = 65_536
"""Largest number of records read from the end: a log without a snapshot among them is read from its start."""
SCANS = 5
"""Number of scans after which a log that is trimmed during each of them is not read for a while."""

_log = get_logger()

S = TypeVar("S", bound=Upto)
T = TypeVar("T", contravariant=True)


class Fold(Protocol[T]):
    """The state of a log."""

    def check(self, offset: int, snapshot: T) -> bool | None: ...


F = TypeVar("F", bound=Fold[Any])


@dataclass(frozen=True, slots=True)
class Decided(Generic[S, F]):
    """Snapshots of one kind of log, and the fold of the log.

    mark: bytes in every record with a snapshot.
    snapshot: returns the snapshot of a record; None if the record has none or cannot be decoded.
    plausible: true if a snapshot at this offset can be true.
    begin: returns the state of a snapshot; of an empty log for None.
    read: adds a record to the state, or skips the record.
    stretch: number of records read from the end at first.
    """

    mark: bytes
    snapshot: Callable[[Message], S | None]
    plausible: Callable[[S, int], bool]
    begin: Callable[[S | None], F]
    read: Callable[[F, Message], None]
    stretch: int


def read_late(log: Log, partition: Partition, kind: Decided[S, F]) -> F:
    """The present state of a log; reading continues behind it.

    Raises Retriable, and StateCorrupted if the state can no longer be found in the log.
    """
    for _ in range(SCANS):
        try:
            return _read(log, partition, kind)
        except PositionGone:
            continue
    raise Retriable(f"{partition}: it was trimmed {SCANS} times while it was read")


def _read(log: Log, partition: Partition, kind: Decided[S, F]) -> F:
    start, end = (log.offsets([partition], at)[partition] for at in ("start", "end"))
    begin, stretch = end, kind.stretch
    while begin > start and stretch <= LAST_STRETCH:
        begin, stretch = max(start, end - stretch), stretch * 4
        messages = list(log.scan(partition, begin))
        base = base_of(_snapshots(messages, kind), begin, kind.plausible)
        if base is not None:
            state = begun(messages, base, kind)
            if state is not None:
                return state
            _log.error("a snapshot differs from what the log gives; none is believed", at=str(partition))
            break
    return _folded(log, partition, start, kind)


def begun(messages: Iterable[Message], base: S, kind: Decided[S, F]) -> F | None:
    """Folds the records of a log from a snapshot; None if a later snapshot differs: then no snapshot is used."""
    state = kind.begin(base)
    return state if all(_fold(state, messages, base.upto, kind)) else None


def _folded(log: Log, partition: Partition, start: int, kind: Decided[S, F]) -> F:
    """Folds the log from its first record; a trimmed log from the snapshot to which it was trimmed. Raises
    StateCorrupted.
    """
    messages = list(log.scan(partition, start))
    base = oldest_of(_snapshots(messages, kind), start, kind.plausible) if start else None
    if start and base is None:
        raise StateCorrupted(
            f"{partition} begins at {start}, and no snapshot says what was decided below: records were deleted that "
            "holdfast has not trimmed. Restore the topic, or begin with another HOLDFAST_CLUSTER"
        )
    state = kind.begin(base)
    for _ in _fold(state, messages, 0 if base is None else base.upto, kind):
        pass
    return state


def _fold(state: F, messages: Iterable[Message], upto: int, kind: Decided[S, F]) -> Iterable[bool]:
    """Adds each record from `upto` to the state; yields false for a record with a snapshot that
    differs from the state.
    """
    for message in _from(messages, upto):
        snapshot = _snapshot(message, kind)
        yield snapshot is None or state.check(message.offset(), snapshot) is not False
        kind.read(state, message)


def _from(messages: Iterable[Message], upto: int) -> Iterable[Message]:
    return (message for message in messages if message.offset() >= upto)


def _snapshots(messages: Sequence[Message], kind: Decided[S, F]) -> list[tuple[int, S]]:
    found = ((message.offset(), _snapshot(message, kind)) for message in messages)
    return [(offset, snapshot) for offset, snapshot in found if snapshot is not None]


def _snapshot(message: Message, kind: Decided[S, F]) -> S | None:
    return kind.snapshot(message) if kind.mark in (message.value() or b"") else None
