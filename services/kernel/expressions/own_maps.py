"""Functions of maps, as expressions of their arguments.

A map is a list of entries sorted by key (codecs/maps.py), and each function that makes one sorts it. A function has no
value, null, for keys that hold a null or a key twice, and for as many keys as values of another number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import polars as pl

from holdfast.services.kernel.codecs import maps
from holdfast.services.kernel.codecs.maps import KEY, SHOWN_KEY, SHOWN_VALUE, VALUE
from holdfast.services.kernel.expressions.own_values import Typed
from holdfast.services.kernel.expressions.refused import Refused
from holdfast.services.kernel.expressions.type_words import in_words, item_of


class Key(NamedTuple):
    """A key that is looked up.

    written: True if it is a literal, so that its column stands for one value in every row.
    """

    value: pl.Expr
    written: bool


def _item_of(kind: Any) -> pl.DataType:
    return item_of(kind)


def _part(name: str) -> pl.Expr:
    return pl.element().struct.field(name)


def _get(found: Typed, key: Key) -> pl.Expr:
    """The value of a key. An item of a list sees no other column, so a key that is a column is made the first entry."""
    if key.written:
        values = _part(VALUE).filter(_part(KEY) == key.value)
        return found.value.list.eval(values).list.get(0, null_on_oob=True)
    nothing = pl.lit(None, dtype=maps.value_of(found.kind))
    asked = pl.concat_list([pl.struct(key.value.alias(KEY), nothing.alias(VALUE))])
    values = _part(VALUE).filter(_part(KEY) == _part(KEY).first())
    return pl.concat_list([asked, found.value]).list.eval(values).list.get(-1, null_on_oob=True)


def _keys(found: Typed) -> pl.Expr:
    return found.value.list.eval(_part(KEY))


def _contains(found: Typed, key: pl.Expr) -> pl.Expr:
    return pl.when(key.is_not_null()).then(_keys(found).list.contains(key))


def _of_lists(keys: Typed, values: Typed) -> pl.Expr:
    """A map of two lists: the entries of both behind each other, then the first halves beside the second ones."""
    key, inner = _item_of(keys.kind), _item_of(values.kind)
    if not (key == pl.String or key == pl.Null):
        raise Refused(f"makes a map whose keys are each {in_words(key)}: keys are texts")
    if inner == pl.Null:
        raise Refused("makes a map of values without a type: cast one of them")
    names = keys.value.cast(pl.List(pl.String))
    sound = _unique(names) & (names.list.len() == values.value.list.len())
    nothing, no_key = pl.lit(None, dtype=inner), pl.lit(None, dtype=pl.String)
    first = names.list.eval(pl.struct(pl.element().alias(KEY), nothing.alias(VALUE)))
    second = values.value.list.eval(pl.struct(no_key.alias(KEY), pl.element().alias(VALUE)))
    half = pl.len() // 2
    entry = pl.struct(_part(KEY).head(half).alias(KEY), _part(VALUE).tail(half).alias(VALUE))
    both = pl.concat_list([pl.when(sound).then(first), pl.when(sound).then(second)])
    return maps.in_order(both.list.eval(entry))


def _of_entries(given: Typed) -> pl.Expr:
    entry = _item_of(given.kind)
    known = isinstance(entry, pl.Struct) and [one.name for one in entry.fields] == [SHOWN_KEY, SHOWN_VALUE]
    if not known or entry.fields[0].dtype != pl.String:  # type: ignore[attr-defined]
        raise Refused("makes a map of another list than one of struct<key: string, value: ...>")
    names = given.value.list.eval(_part(SHOWN_KEY))
    renamed = given.value.list.eval(pl.element().struct.rename_fields([KEY, VALUE]))
    return pl.when(_unique(names)).then(maps.in_order(renamed))


def _unique(names: pl.Expr) -> pl.Expr:
    """True if no text of a list is null, and none is there twice."""
    return (names.list.n_unique() == names.list.len()) & ~names.list.eval(pl.element().is_null()).list.any()


OF_MAPS: dict[str, Callable[..., Any]] = {
    "MAP_CONTAINS": _contains,
    "MAP_ENTRIES": lambda found: maps.shown(found.value),
    "MAP_FROM_ENTRIES": _of_entries,
    "MAP_FROM_LISTS": _of_lists,
    "MAP_GET": _get,
    "MAP_KEYS": _keys,
    "MAP_VALUES": lambda found: found.value.list.eval(_part(VALUE)),
}
