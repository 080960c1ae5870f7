"""Text in a record's bytes: skips a byte order mark, and names an encoding other than UTF-8."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

BOM = codecs.BOM_UTF8
_MARKS = (  # UTF-32 comes first: its marks begin with the marks of UTF-16
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_HALF = re.compile(
    rb"(?<!\\)(?:\\\\)*(?:(\\u[dD][89abAB][0-9a-fA-F]{2})(?!\\u[dD][c-fC-F])|(\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")


def unmarked(value: bytes) -> bytes:
    """The bytes without the byte order mark of UTF-8, which some programs write at the begin of a file."""
    return value[len(BOM) :] if value.startswith(BOM) else value


def other_encoding(value: bytes) -> str:
    """The encoding of a text that is not UTF-8, if it can be recognised; empty otherwise."""
    for mark, name in _MARKS:
        if value.startswith(mark):
            return name
    even, odd = value[0:200:2], value[1:200:2]
    if len(value) >= 4 and max(even.count(0), odd.count(0)) * 4 > 3 * len(odd):
        return "UTF-32" if min(even.count(0), odd.count(0)) * 4 > len(odd) else "UTF-16"
    return ""


def half_of_a_pair(value: bytes) -> str:
    """The first escape of a JSON text that is half of a surrogate pair, such as \\ud800; else empty."""
    found = _HALF.search(_PAIR.sub(b"", value))
    return "" if found is None else (found[1] or found[2]).decode()


def are_texts(records: Sequence[bytes | None]) -> bool:
    """True if the records are UTF-8. A record with the frame of a registry may not be UTF-8 although its value is."""
    try:
        return all(map(bytes.isascii, records)) or b"\n".join(records).decode() is not None  # type: ignore[arg-type]
    except (UnicodeDecodeError, TypeError):  # some are none, or have no value
        return False
