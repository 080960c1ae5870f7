"""Records of a loaded machine, so that every detector can be shown the same. Times: monotonic, us."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec


class Turn(msgspec.Struct, frozen=True, array_like=True):
    """A turn of a recovery replica's loop: (worker, incarnation) of the heartbeats read, and whether its echo came."""

    at_us: int
    beats: tuple[tuple[str, str], ...] = ()
    echo: bool = False


class Timing(msgspec.Struct, frozen=True, array_like=True):
    """A sample of the machine's load, 0 to 1.

    took_us: duration of the embedded elements in microseconds; None: they were not run.
    """

    at_us: int
    load: float
    took_us: int | None = None


def turns(file: Path) -> list[Turn]:
    decode = msgspec.json.Decoder(Turn).decode
    return [decode(line) for line in _whole_lines(file)]


def timings(file: Path) -> list[Timing]:
    decode = msgspec.json.Decoder(Timing).decode
    return [decode(line) for line in _whole_lines(file)]


def _whole_lines(file: Path) -> Iterator[bytes]:
    """The complete lines of a file; its writer may be in the middle of the last one."""
    with file.open("rb") as lines:
        yield from (line for line in lines if line.endswith(b"\n"))
