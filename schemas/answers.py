"""Answers that users' code has waited for, as the cut log holds them: rows of one task for one batch.

Source: PROTOCOL 3 and 4, decision 0225.
"""

from __future__ import annotations

import msgspec


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """rows: Arrow IPC without schema; empty: none. refused: places of rows of the batch that got none, and why."""

    rows: bytes
    refused: tuple[tuple[int, str], ...] = ()


_decoder = msgspec.msgpack.Decoder(Answer)
encode = msgspec.msgpack.Encoder().encode


def decode(data: bytes) -> Answer:
    """Raises msgspec.DecodeError on anything else."""
    return _decoder.decode(data)
