"""The number of distinct values: exact up to 10,000, then estimated with a standard error of 1 %.

The smallest hashes are kept, so a memory is at most 80 kB, and the merge of two does not depend on their order. Hashes
have 64 bits and are the same on every machine. Numbers, times and truth values each have a unique hash; two of 10,000
texts, bytes or decimals share a hash in 4 of 10^12 cases. NaN counts as a value, null does not.
Source: Bar-Yossef et al., "Counting distinct elements in a data stream" (2002), the bottom-k estimator.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pyarrow.compute as pc
import xxhash

from holdfast.services.kernel.codecs.keys import canonical_floats
from holdfast.services.kernel.operators.grouped_values import sorted_within

EXACT_UP_TO = 10_000
_KEPT = EXACT_UP_TO + 1
_HASH = np.dtype("<u8")
_WIDTH = _HASH.itemsize


def prepared(column: pl.Series) -> pl.Series:
    """Hashes; null stays null."""
    if column.dtype in (pl.String, pl.Binary) or isinstance(column.dtype, pl.Decimal):
        hashes = _of_texts(column)
    else:
        numbers = canonical_floats(column) if column.dtype.is_float() else column.cast(pl.Int64)
        wide = numbers.cast(pl.Float64) if column.dtype.is_float() else numbers
        hashes = _mixed(wide.fill_null(0).to_numpy().view(np.uint64))
    return pl.Series(column.name, hashes).set(column.is_null(), None)


def _of_texts(column: pl.Series) -> np.ndarray:
    """The hash of each distinct text of the batch."""
    plain = column.cast(pl.String) if isinstance(column.dtype, pl.Decimal) else column
    binary = plain.cast(pl.Binary).fill_null(b"")
    coded: Any = pc.dictionary_encode(binary.to_arrow(compat_level=pl.CompatLevel.oldest()))
    hashes = [xxhash.xxh3_64_intdigest(text) for text in coded.dictionary.to_pylist()]
    by_code: np.ndarray = np.array(hashes, dtype=np.uint64)
    codes: np.ndarray = coded.indices.to_numpy(zero_copy_only=False)
    return by_code.take(codes)


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """SplitMix64: each number has another hash."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def memories(lists: pl.Series) -> list[bytes]:
    """A memory for each group: its smallest hashes, ascending."""
    values, starts, bounds = sorted_within(lists)
    hashes = values[starts].astype(_HASH).tobytes()
    return [hashes[start * _WIDTH : min(stop, start + _KEPT) * _WIDTH] for start, stop in pairwise(bounds.tolist())]


def merged(one: bytes, other: bytes) -> bytes:
    """The memory of both."""
    if not one or not other:
        return one or other
    if len(one) < len(other):
        one, other = other, one
    known, new = np.frombuffer(one, _HASH), np.frombuffer(other, _HASH)
    if len(known) == _KEPT:
        new = new[: new.searchsorted(known[-1])]
    new = new[known.take(known.searchsorted(new), mode="clip") != new]
    if not len(new):
        return one
    both = np.concatenate((known, new))
    both.sort(kind="stable")  # a stable sort merges sorted runs fast
    return both[:_KEPT].tobytes()


def count(memory: bytes) -> int:
    known = len(memory) // _WIDTH
    if known <= EXACT_UP_TO:
        return known
    largest = int.from_bytes(memory[-_WIDTH:], "little")
    return (known - 1) * 2**64 // largest
