"""Messages between a worker and a process that runs users' code. Rows travel beside a message.

The worker sends Open once, then Batch after Batch. The process answers Open with Opened or Raised, and a Batch with
Done or Raised. Before that answer it may ask for state any number of times: the worker answers Get with Found, Scan and
More with Page.
"""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl

from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.operators.operator import BatchContext, Outcome
from holdfast.services.kernel.plurals import with_article


class Open(msgspec.Struct, frozen=True, tag="open", array_like=True):
    """The operator to load.

    Attributes:
        fields: columns of the input.
        allow: modules that code may come from; None for any.
    """

    plan: OperatorPlan
    fields: dict[str, str]
    task: str
    allow: list[str] | None = None


class Batch(msgspec.Struct, frozen=True, tag="batch", array_like=True):
    """A batch; its rows travel beside it. `fresh` is True if the state has changed since the last batch other than by
    this process, so that values known there are out of date."""

    context: BatchContext
    fresh: bool = False


class Found(msgspec.Struct, frozen=True, tag="found", array_like=True):
    """The values in the order of the keys; None for a missing key."""

    values: list[bytes | None]


class Page(msgspec.Struct, frozen=True, tag="page", array_like=True):
    """Entries of a scan. `more` is True if further entries can be requested with More."""

    entries: list[tuple[bytes, bytes]]
    more: bool


class Opened(msgspec.Struct, frozen=True, tag="opened", array_like=True):
    """The code is loaded. `fields` holds its output columns."""

    fields: dict[str, str]


class Get(msgspec.Struct, frozen=True, tag="get", array_like=True):
    """A request for values of a table. `opened` holds the names of tables first used since the last message."""

    opened: list[str]
    table: int
    keys: list[bytes]


class Scan(msgspec.Struct, frozen=True, tag="scan", array_like=True):
    """A request for all entries of a table whose key starts with a prefix."""

    opened: list[str]
    table: int
    prefix: bytes


class More(msgspec.Struct, frozen=True, tag="more", array_like=True):
    """A request for the next page of the last scan."""


class Put(msgspec.Struct, frozen=True, array_like=True):
    """A write to a table; `values` of None deletes the keys."""

    table: int
    keys: list[bytes]
    values: list[bytes] | None


class Done(msgspec.Struct, frozen=True, tag="done", array_like=True):
    """A finished batch.

    Attributes:
        writes: writes to tables, in order.
        outcome: its outcome without rows, which travel beside it.
    """

    opened: list[str]
    writes: list[Put]
    outcome: Outcome


class Raised(msgspec.Struct, frozen=True, tag="raised", array_like=True):
    """An error of the code; `error` is the name of a class in services/kernel/errors.py."""

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
