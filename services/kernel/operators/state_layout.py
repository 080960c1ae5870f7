"""The layout of a typed state: what a key holds, and how long."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import msgspec

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.services.kernel.codecs.fields import dtype, members, nullable, required
from holdfast.services.kernel.codecs.maps import holds_map

if TYPE_CHECKING:
    pass

ITEM_KEYS: dict[str, type] = {"string": str, "int": int}
_SIMPLE: dict[str, Any] = {
    "string": str,
    "int": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    "float": float,
    "bool": bool,
    "timestamp": Annotated[datetime, msgspec.Meta(tz=True)],
    "date": date,
    "bytes": bytes,
}


class Layout(msgspec.Struct, frozen=True, omit_defaults=True):
    """The declaration of a state.

    form: value, list or map.
    type: the field type of a value or an item.
    key: the type of the keys of a map's items.
    ttl_us: the time to live in microseconds; null: entries never expire.
    """

    form: str
    type: str
    key: str = ""
    ttl_us: int | None = None

    def __str__(self) -> str:
        of = f"{self.key} to {self.type}" if self.key else self.type
        return f"a {self.form} of {of}" + (f" for {self.ttl_us / 1_000_000:g} s" if self.ttl_us is not None else "")

    def fits(self, other: Layout) -> bool:
        """True if this layout can read entries of the other one; a time to live may be longer or shorter."""
        same = (self.form, self.type, self.key) == (other.form, other.type, other.key)
        return same and (self.ttl_us is None) == (other.ttl_us is None)

    def content(self) -> Any:
        """The Python type of an entry's content, with the times of its writes."""
        one = python_type(self.type)
        item = one if self.ttl_us is None else GenericAlias(tuple, (int, one))
        if self.form == "value":
            return item
        return GenericAlias(list, (item,)) if self.form == "list" else GenericAlias(dict, (ITEM_KEYS[self.key], item))

    def newest(self, content: Any) -> int:
        """The time of the newest write of an entry with a time to live."""
        if self.form == "value":
            return int(content[0])
        items = content if self.form == "list" else content.values()
        return max((int(time) for time, _ in items), default=NO_WATERMARK)

    def plain(self, content: Any) -> Any:
        """The content without times."""
        if self.ttl_us is None:
            return content
        if self.form == "value":
            return content[1]
        if self.form == "list":
            return [value for _, value in content]
        return {key: value for key, (_, value) in content.items()}


def decoder(layout: Layout) -> Callable[[bytes], Any]:
    return msgspec.msgpack.Decoder(layout.content()).decode


def layout_of(form: str, type: str, ttl_s: float | None, key: str = "") -> Layout:
    """The layout of a declared state. Raises ValueError for an unknown type or an invalid time to live."""
    if holds_map(dtype(type)):
        raise ValueError(f"a state holds no {type.strip()}: state.map is a map of a key, with items by text or int")
    if key and key not in ITEM_KEYS:
        raise ValueError(f"keys of a map's items are {' or '.join(ITEM_KEYS)}, not {key}")
    if ttl_s is not None and (isinstance(ttl_s, bool) or not ttl_s > 0):
        raise ValueError(f"ttl_s is a number of seconds above 0, not {ttl_s!r}")
    return Layout(form, type.strip(), key, None if ttl_s is None else round(ttl_s * 1_000_000))


def python_type(text: str) -> Any:
    """The Python type of a valid field type."""
    name = required(text)
    found: Any = _SIMPLE.get(name, Decimal)
    if name.startswith("list<"):
        found = GenericAlias(list, (python_type(name[5:-1]),))
    elif name.startswith("struct<"):
        made: Any = TypedDict  # a type checker requires literal fields
        found = made("struct", {field: python_type(kind) for field, kind in members(name).items()})
    return found | None if nullable(text) else found
