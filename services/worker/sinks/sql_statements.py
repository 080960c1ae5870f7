"""Statements that write the rows of one sink into its table, and the values as the database takes them.

Source: docs/decisions/0239.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from holdfast.services.kernel.codecs.fields import dtype

_ISO = "%Y-%m-%dT%H:%M:%S%.6fZ"


@dataclass(frozen=True, slots=True)
class Dialect:
    """Words of a database.

    types: column types by polars type; decimal with places for precision and scale.
    mark: stands for a value.
    begin: begins a transaction that writes.
    lock: ends a query whose rows are locked.
    as_text: times and decimals are text there, because the database has no such types.
    """

    types: Mapping[type[pl.DataType], str]
    mark: str
    begin: str
    lock: str
    as_text: bool

    def quoted(self, name: str) -> str:
        """A name as it stands, whatever its letters."""
        text = '"' + name.replace('"', '""') + '"'
        return text.replace("%", "%%") if self.mark == "%s" else text

    def column_type(self, text: str) -> str:
        kind = dtype(text)
        found = self.types[type(kind)]
        return found.format(kind.precision, kind.scale) if isinstance(kind, pl.Decimal) else found


SQLITE = Dialect(
    {
        pl.Int64: "INTEGER",
        pl.Float64: "REAL",
        pl.Boolean: "INTEGER",
        pl.String: "TEXT",
        pl.Datetime: "TEXT",
        pl.Date: "TEXT",
        pl.Decimal: "TEXT",
        pl.Binary: "BLOB",
    },
    mark="?",
    begin="BEGIN IMMEDIATE",  # SQLite locks the whole file
    lock="",
    as_text=True,
)
POSTGRESQL = Dialect(
    {
        pl.Int64: "BIGINT",
        pl.Float64: "DOUBLE PRECISION",
        pl.Boolean: "BOOLEAN",
        pl.String: "TEXT",
        pl.Datetime: "TIMESTAMPTZ",
        pl.Date: "DATE",
        pl.Decimal: "NUMERIC({}, {})",
        pl.Binary: "BYTEA",
    },
    mark="%s",
    begin="BEGIN",
    lock=" FOR UPDATE",
    as_text=False,
)


@dataclass(frozen=True)
class TableStatements:
    """Statements of one sink.

    Args:
        table: its name, perhaps behind that of its schema and a dot.
        fields: type text by column of the rows.
        key: columns by which a row replaces the one that is there; empty: rows are appended.
    """

    dialect: Dialect
    table: str
    fields: Mapping[str, str]
    key: Sequence[str]

    @cached_property
    def name(self) -> str:
        return ".".join(map(self.dialect.quoted, self.table.split(".")))

    @cached_property
    def look(self) -> str:
        """A query without rows, which shows the columns that the table has."""
        return f"SELECT * FROM {self.name} WHERE 1 = 0"

    @cached_property
    def create(self) -> str:
        quoted, kind = self.dialect.quoted, self.dialect.column_type
        columns = [f"{quoted(one)} {kind(text)}" for one, text in self.fields.items()]
        columns += [f"PRIMARY KEY ({self._names(self.key)})"] if self.key else []
        return f"CREATE TABLE IF NOT EXISTS {self.name} ({', '.join(columns)})"

    @cached_property
    def write(self) -> str:
        marks = ", ".join([self.dialect.mark] * len(self.fields))
        text = f"INSERT INTO {self.name} ({self._names(self.fields)}) VALUES ({marks})"
        if not self.key:
            return text
        rest = [self.dialect.quoted(one) for one in self.fields if one not in self.key]
        does = f"UPDATE SET {', '.join(f'{one} = excluded.{one}' for one in rest)}" if rest else "NOTHING"
        return f"{text} ON CONFLICT ({self._names(self.key)}) DO {does}"

    @cached_property
    def delete(self) -> str:
        same = " AND ".join(f"{self.dialect.quoted(one)} = {self.dialect.mark}" for one in self.key)
        return f"DELETE FROM {self.name} WHERE {same}"

    def missing(self, columns: Sequence[str]) -> str:
        """A statement for the first column that the table lacks; empty: it has all. columns: of the table."""
        lacks = next((one for one in self.fields if one not in columns), "")
        kind = self.dialect.column_type(self.fields[lacks]) if lacks else ""
        return f"ALTER TABLE {self.name} ADD COLUMN {self.dialect.quoted(lacks)} {kind}" if lacks else ""

    def values(self, rows: pl.DataFrame) -> list[tuple[Any, ...]]:
        """Rows as the driver takes them."""
        return _as_text(rows).rows() if self.dialect.as_text else rows.rows()

    def _names(self, columns: Sequence[str] | Mapping[str, str]) -> str:
        return ", ".join(map(self.dialect.quoted, columns))


def _as_text(rows: pl.DataFrame) -> pl.DataFrame:
    kinds = rows.schema.items()
    texts = [pl.col(one).dt.to_string(_ISO) for one, kind in kinds if isinstance(kind, pl.Datetime)]
    texts += [pl.col(one).cast(pl.String) for one, kind in kinds if isinstance(kind, pl.Date | pl.Decimal)]
    return rows.with_columns(texts) if texts else rows
