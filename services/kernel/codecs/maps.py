"""Maps: a list of entries, each a struct of a key and a value, sorted by key, with each key once.

The names of an entry's members hold a colon. No struct of a job file can have such a member, because the colon ends the
name in a type text; so the polars type alone tells a map from a list of structs. Polars and Python compare texts as
UTF-8 does, so both sort entries alike. docs/decisions/0258 says why. Source: JOBS "Field types".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

KEY, VALUE = "map:key", "map:value"
"""The members of an entry."""
SHOWN_KEY, SHOWN_VALUE = "key", "value"
"""The members of an entry that has become a row or an item of a list."""
_ENTRY, _SHOWN = [KEY, VALUE], [SHOWN_KEY, SHOWN_VALUE]


def map_of(value: pl.DataType) -> pl.List:
    """The polars type of a map from texts to values of this type."""
    return pl.List(pl.Struct({KEY: pl.String(), VALUE: value}))


def is_map(kind: Any) -> bool:
    """True for the polars type of a map."""
    entry = kind.inner if isinstance(kind, pl.List) else None
    return isinstance(entry, pl.Struct) and [one.name for one in entry.fields] == [KEY, VALUE]


def value_of(kind: Any) -> pl.DataType:
    """The polars type of a map's values."""
    found: Any = kind.inner.fields[1].dtype
    return found() if isinstance(found, type) else found  # type: ignore[no-any-return]


def holds_map(kind: Any) -> bool:
    """True for a map, and for lists and structs with a map inside."""
    if isinstance(kind, pl.List):
        return is_map(kind) or holds_map(kind.inner)
    return isinstance(kind, pl.Struct) and any(holds_map(one.dtype) for one in kind.fields)


def entries(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of a map in their canonical order."""
    return [{KEY: key, VALUE: values[key]} for key in sorted(values)]


def as_dicts(value: Any, kind: Any) -> Any:
    """A value of polars with a dict in place of each map, at any depth."""
    if value is None or not holds_map(kind):
        return value
    if is_map(kind):
        inner = value_of(kind)
        return {one[KEY]: as_dicts(one[VALUE], inner) for one in value}
    if isinstance(kind, pl.List):
        return [as_dicts(one, kind.inner) for one in value]
    return {one.name: as_dicts(value[one.name], one.dtype) for one in kind.fields}


def may_be_map(given: Any, wanted: Any) -> bool:
    """True if values of a type can be made maps of a type: the entries have the same values, in a list of structs of
    `key` and `value` or as of a map, at any depth.
    """
    if given == wanted and not holds_map(wanted):
        return True
    if is_map(wanted):
        entry = given.inner if isinstance(given, pl.List) else None
        if not isinstance(entry, pl.Struct) or [one.name for one in entry.fields] not in (_ENTRY, _SHOWN):
            return False
        return entry.fields[0].dtype == pl.String and may_be_map(entry.fields[1].dtype, value_of(wanted))
    if isinstance(wanted, pl.List):
        return isinstance(given, pl.List) and may_be_map(given.inner, wanted.inner)
    if isinstance(wanted, pl.Struct) and isinstance(given, pl.Struct):
        pairs = list(zip(given.fields, wanted.fields, strict=False))
        alike = len(given.fields) == len(wanted.fields) and all(one.name == other.name for one, other in pairs)
        return alike and all(may_be_map(one.dtype, other.dtype) for one, other in pairs)
    return False


def canonical(value: pl.Expr, given: Any, wanted: Any) -> pl.Expr:
    """Values as maps of a type, at any depth, if `may_be_map`. Of equal keys the last one counts."""
    if not holds_map(wanted):
        return value
    if is_map(wanted):
        key, inner = given.inner.fields
        item = pl.element().struct.field(inner.name)
        entry = pl.struct(
            pl.element().struct.field(key.name).alias(KEY),
            canonical(item, inner.dtype, value_of(wanted)).alias(VALUE),
        )
        return in_order(last_of_each(value.list.eval(entry)))
    if isinstance(wanted, pl.List):
        return value.list.eval(canonical(pl.element(), given.inner, wanted.inner))
    parts = [
        canonical(value.struct.field(one.name), one.dtype, other.dtype).alias(other.name)
        for one, other in zip(given.fields, wanted.fields, strict=True)
    ]
    return pl.when(value.is_not_null()).then(pl.struct(parts))


def holds_null_key(value: Any, kind: Any) -> bool:
    """True if a map in a value of this type has a key that is null."""
    if value is None or not holds_map(kind):
        return False
    if is_map(kind):
        inner = value_of(kind)
        return any(one[KEY] is None or holds_null_key(one[VALUE], inner) for one in value)
    if isinstance(kind, pl.List):
        return any(holds_null_key(one, kind.inner) for one in value)
    return any(holds_null_key(value[one.name], one.dtype) for one in kind.fields)


def last_of_each(entries: pl.Expr) -> pl.Expr:
    """The entries without those whose key comes again."""
    return entries.list.eval(pl.element().filter(pl.element().struct.field(KEY).is_last_distinct()))


def in_order(entries: pl.Expr) -> pl.Expr:
    """The entries sorted by key."""
    return entries.list.eval(pl.element().sort_by(pl.element().struct.field(KEY)))


def shown(entries: pl.Expr) -> pl.Expr:
    """The entries as a list of structs with the members `key` and `value`."""
    return entries.list.eval(pl.element().struct.rename_fields([SHOWN_KEY, SHOWN_VALUE]))
