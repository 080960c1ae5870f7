"""Answers that users' code has waited for, as the cut log holds them: rows of one task for one batch.

Source: PROTOCOL 3 and 4, decision 0225.
"""

from __future__ import annotations

import msgspec


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """Answers of one batch.

    rows: Arrow IPC without schema; empty: no rows.
    refused: places of rows of the batch that got no answer, and the causes.
    """

    rows: bytes
    refused: tuple[tuple[int, str], ...] = ()


_decoder = msgspec.msgpack.Decoder(Answer)
encode = msgspec.msgpack.Encoder().encode


def decode(data: bytes) -> Answer:
    """Decodes an answer. Raises msgspec.DecodeError on malformed bytes."""
    return _decoder.decode(data)
