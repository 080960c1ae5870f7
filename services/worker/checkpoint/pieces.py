"""Splits checkpoint work into pieces between batches, so that pauses do not grow with the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator

PIECE_MS = 1.0


def timed_pieces(clock_ms: Callable[[], float], due: Callable[[], bool], piece: Callable[[], None]) -> Iterator[float]:
    """Does a piece, and further due pieces until PIECE_MS has passed. Yields the milliseconds of each piece."""
    began_ms = now_ms = clock_ms()
    while due():
        piece()
        now_ms, before_ms = clock_ms(), now_ms
        yield now_ms - before_ms
        if now_ms >= began_ms + PIECE_MS:
            return
