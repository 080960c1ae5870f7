"""Functions of texts, lists, structs and places, as expressions of their arguments."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import polars as pl
import pyarrow.compute as pc
import xxhash

from holdfast.services.kernel.codecs.maps import KEY, is_map
from holdfast.services.kernel.expressions.refused import Refused, check_pattern

MOST_BYTES = 1_000_000
"""The limit of a text made by REPEAT."""
_LETTERS = "0123456789bcdefghjkmnpqrstuvwxyz"
_PATH = re.compile(r"""\$(?:\.[A-Za-z_]\w*|\[\d+\]|\['[^'\\]+'\]|\["[^"\\]+"\])*""")
_FAR = 2**31


class Typed(NamedTuple):
    """An argument, and its type."""

    value: pl.Expr
    kind: pl.DataType


class Hashing(NamedTuple):
    """A hash of a text, computed by Python once for each distinct text of a batch.

    kind: the type of the hash.
    """

    hashed: Callable[[bytes], Any]
    kind: pl.DataType

    def of(self, texts: pl.Series) -> pl.Series:
        coded: Any = pc.dictionary_encode(texts.cast(pl.Binary).to_arrow(compat_level=pl.CompatLevel.oldest()))
        hashes = pl.Series(texts.name, [self.hashed(text) for text in coded.dictionary.to_pylist()], dtype=self.kind)
        codes = pl.Series(pc.cast(coded.indices, "uint32"), dtype=pl.UInt32)
        return hashes.gather(codes) if len(hashes) else pl.Series(texts.name, [None] * len(texts), dtype=self.kind)


def _hexadecimal(name: str) -> Callable[[], Hashing]:
    return lambda *_: Hashing(lambda text: hashlib.new(name, text, usedforsecurity=False).hexdigest(), pl.String())


def _hash64(*_: pl.Expr) -> Hashing:
    """Hash as a signed number."""
    return Hashing(lambda text: (xxhash.xxh3_64_intdigest(text) ^ 2**63) - 2**63, pl.Int64())


def _repeated(text: pl.Expr, count: pl.Expr) -> pl.Expr:
    times = count.clip(0, MOST_BYTES + 1)
    fits = text.str.len_bytes().cast(pl.Int64) * times <= MOST_BYTES
    few = pl.when(fits).then(pl.min_horizontal(times, MOST_BYTES)).otherwise(0)
    return pl.when(fits).then(text.repeat_by(few).list.join(""))


def _extracted(text: pl.Expr, pattern: str, group: int = 0) -> pl.Expr:
    check_pattern(pattern)
    known = re.compile(r"\\.|\((?!\?[^P<])|\(\?P?<(?![=!])").findall(re.sub(r"\[[^\]]*\]", "", pattern))
    groups = sum(one.startswith("(") for one in known)
    if not 0 <= group <= groups:
        raise Refused(f"asks for group {group} of '{pattern}', which has {groups}")
    return text.str.extract(pattern, group)


def _all_extracted(text: pl.Expr, pattern: str) -> pl.Expr:
    check_pattern(pattern)
    return pl.when(text.is_not_null()).then(text.str.extract_all(pattern))


def _matches(text: pl.Expr, pattern: str) -> pl.Expr:
    check_pattern(pattern)
    return text.str.count_matches(pattern).cast(pl.Int64)


def _at_path(json: pl.Expr, path: str) -> pl.Expr:
    if not _PATH.fullmatch(path):
        raise Refused(f"has the path '{path}': a path is made of names and numbers, such as '$.user.tags[0]'")
    return json.str.json_path_match(path)


def _list(*values: Typed) -> pl.Expr:
    kinds = [one.kind for one in values if one.kind != pl.Null]
    if not kinds:
        raise Refused("makes a list of values without a type: cast one of them")
    kind = kinds[0]
    if all(one.is_integer() for one in kinds):
        kind = pl.Int64()
    elif all(one.is_integer() or one.is_float() for one in kinds):
        kind = pl.Float64()
    elif any(one != kind for one in kinds):
        raise Refused("makes a list of values of several types: cast them to one")
    if is_map(kind):  # polars would make one list of the entries of all
        each = pl.concat_list([pl.struct(one.value.cast(kind).alias(KEY)) for one in values])
        return each.list.eval(pl.element().struct.field(KEY))
    return pl.concat_list([one.value.cast(kind) for one in values])


def _struct(*parts: Any) -> pl.Expr:
    names = parts[::2]
    if len(parts) % 2:
        raise Refused(f"gives NAMED_STRUCT the name '{parts[-1]}' without a value")
    if len(set(names)) < len(names):
        raise Refused("gives NAMED_STRUCT a name twice")
    if wrong := next((name for name in names if not re.fullmatch(r"[A-Za-z]\w*", name)), None):
        raise Refused(f"gives NAMED_STRUCT the name '{wrong}': a name is a word of letters, digits and underscores")
    if any(one.kind == pl.Null for one in parts[1::2]):
        raise Refused("gives NAMED_STRUCT a value without a type: cast it")
    return pl.struct([one.value.alias(name) for name, one in zip(names, parts[1::2], strict=True)])


def _joined(one: Typed, other: Typed) -> pl.Expr:
    if one.kind != other.kind:
        raise Refused("joins lists of two types: cast their items when they are made")
    return pl.concat_list([one.value, other.value])


def _slice(items: Typed, begin: pl.Expr, end: pl.Expr) -> pl.Expr:
    count = items.value.list.len().cast(pl.Int64)
    first, last = (
        pl.when(place < 0).then(count + place + 1).otherwise(place)
        for place in (begin.clip(-_FAR, _FAR), end.clip(-_FAR, _FAR))
    )
    offset = (first - 1).clip(0)
    known = items.value.is_not_null() & begin.is_not_null() & end.is_not_null()
    return pl.when(known).then(items.value.list.slice(offset, (last - offset).clip(0)))


def _geohash(latitude: pl.Expr, longitude: pl.Expr, letters: int = 9) -> pl.Expr:
    """The bits of longitude and latitude alternately, five per letter. Source: G. Niemeyer, geohash.org (2008)."""
    if not 1 <= letters <= 12:
        raise Refused(f"asks GEOHASH for {letters} letters: it gives 1 to 12")
    sound = latitude.is_between(-90, 90) & longitude.is_between(-180, 180)
    across, along = (
        (share * 2.0**30).floor().clip(0, 2**30 - 1).cast(pl.Int64, strict=False)
        for share in ((longitude + 180.0) * (1 / 360), (latitude + 90.0) * (1 / 180))
    )
    found = [
        _bits(across, along, 5 * at).replace_strict(list(range(32)), list(_LETTERS), return_dtype=pl.String)
        for at in range(letters)
    ]
    return pl.when(sound).then(pl.concat_str(found))


def _bits(across: pl.Expr, along: pl.Expr, begin: int) -> pl.Expr:
    bits: Sequence[pl.Expr] = [
        ((along if at % 2 else across) // 2 ** (29 - at // 2) % 2) * 2 ** (4 - at + begin)
        for at in range(begin, begin + 5)
    ]
    return sum(bits[1:], bits[0])


OF_VALUES: dict[str, Callable[..., Any]] = {
    "BIT_AND": lambda one, other: one & other,
    "BIT_NOT": lambda value: ~value,
    "BIT_OR": lambda one, other: one | other,
    "CONTAINS": lambda text, part: text.str.contains(part, literal=True),
    "GEOHASH": _geohash,
    "HASH64": _hash64,
    "JSON_EXTRACT_STRING": _at_path,
    "LIST_CONCAT": _joined,
    "LIST_SLICE": _slice,
    "LIST_SORT": lambda items: items.value.list.sort(nulls_last=True),
    "LIST_VALUE": _list,
    "MD5": _hexadecimal("md5"),
    "NAMED_STRUCT": _struct,
    "REGEXP_COUNT": _matches,
    "REGEXP_EXTRACT": _extracted,
    "REGEXP_EXTRACT_ALL": _all_extracted,
    "REPEAT": _repeated,
    "SHA1": _hexadecimal("sha1"),
    "SHA256": _hexadecimal("sha256"),
    "TO_BASE64": lambda text: text.cast(pl.Binary).bin.encode("base64"),
    "TO_HEX": lambda text: text.cast(pl.Binary).bin.encode("hex").str.to_uppercase(),
}
