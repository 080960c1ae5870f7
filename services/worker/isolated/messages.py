"""Messages between a worker and a process that runs a user's code; rows lie beside the message.

The worker: Open once, then Batch after Batch. The child answers Open with Opened or Raised, and a Batch with Done or
Raised. In between it may ask for state, as often as it needs: Get is answered by Found, Scan and More by Page.
"""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl

from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.operators.operator import BatchContext, Outcome
from holdfast.services.kernel.plurals import with_article


class Open(msgspec.Struct, frozen=True, tag="open", array_like=True):
    """The operator to load. fields: of the input. allow: modules that code may come from; None: any."""

    plan: OperatorPlan
    fields: dict[str, str]
    task: str
    allow: list[str] | None = None


class Batch(msgspec.Struct, frozen=True, tag="batch", array_like=True):
    """Beside it: the rows. fresh: the state is another one than after the last batch, so nothing known of it counts."""

    context: BatchContext
    fresh: bool = False


class Found(msgspec.Struct, frozen=True, tag="found", array_like=True):
    """In the order of the keys; None where there is none."""

    values: list[bytes | None]


class Page(msgspec.Struct, frozen=True, tag="page", array_like=True):
    """more: there are further entries, to be asked for by More."""

    entries: list[tuple[bytes, bytes]]
    more: bool


class Opened(msgspec.Struct, frozen=True, tag="opened", array_like=True):
    """The code is loaded. fields: that it puts out."""

    fields: dict[str, str]


class Get(msgspec.Struct, frozen=True, tag="get", array_like=True):
    """Values of a table. opened: names of the tables that were used for the first time since the last message."""

    opened: list[str]
    table: int
    keys: list[bytes]


class Scan(msgspec.Struct, frozen=True, tag="scan", array_like=True):
    """All entries of a table whose key starts with a prefix."""

    opened: list[str]
    table: int
    prefix: bytes


class More(msgspec.Struct, frozen=True, tag="more", array_like=True):
    """The next page of the last scan."""


class Put(msgspec.Struct, frozen=True, array_like=True):
    """values: None deletes the keys."""

    table: int
    keys: list[bytes]
    values: list[bytes] | None


class Done(msgspec.Struct, frozen=True, tag="done", array_like=True):
    """outcome: its rows lie beside it, here it has none. writes: in their order."""

    opened: list[str]
    writes: list[Put]
    outcome: Outcome


class Raised(msgspec.Struct, frozen=True, tag="raised", array_like=True):
    """error: one of services/kernel/errors.py, by name."""

    error: str
    text: str


FromWorker = Open | Batch | Found | Page
FromCode = Opened | Get | Scan | More | Done | Raised

_NO_ROWS = pl.DataFrame()


def _without_rows(value: Any) -> None:
    assert isinstance(value, pl.DataFrame), f"a message cannot hold {value!r}"


def _no_rows(kind: type, value: Any) -> pl.DataFrame:
    if kind is not pl.DataFrame or value is not None:
        raise ValueError(f"a message cannot hold {with_article(kind.__name__)}")
    return _NO_ROWS


encode = msgspec.msgpack.Encoder(enc_hook=_without_rows).encode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode
decode_from_code = msgspec.msgpack.Decoder(FromCode, dec_hook=_no_rows).decode
