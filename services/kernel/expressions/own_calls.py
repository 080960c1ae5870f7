"""Calls of functions that polars' SQL lacks, as text that it can parse.

`REPEAT(s, 2)` becomes `COALESCE('<mark>REPEAT', s, 2)`, which accepts any arguments; own_functions.py finds its tree
again. Another name of a function becomes its first name, `t AT TIME ZONE 'z'` and `ARRAY[a, b]` become calls, DATE_ADD
and DATE_SUB a sum and a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from holdfast.services.kernel.functions.catalogue import BY_NAME

MARK = "\x01"
OWN = (
    "BIT_AND", "BIT_NOT", "BIT_OR", "CONTAINS", "DATEADD", "DATE_DIFF", "DATE_TRUNC", "DAYNAME", "EPOCH",
    "EPOCH_MS", "EPOCH_US", "FROM_UTC_TIMESTAMP", "GEOHASH", "HASH64", "JSON_EXTRACT_STRING", "LAST_DAY",
    "LIST_CONCAT", "LIST_SLICE", "LIST_SORT", "LIST_VALUE", "MAKE_DATE", "MAKE_TIMESTAMP", "MAP_CONTAINS",
    "MAP_ENTRIES", "MAP_FROM_ENTRIES", "MAP_FROM_LISTS", "MAP_GET", "MAP_KEYS", "MAP_VALUES", "MD5", "MONTHNAME",
    "NAMED_STRUCT", "REGEXP_COUNT", "REGEXP_EXTRACT", "REGEXP_EXTRACT_ALL", "REPEAT", "SHA1", "SHA256", "TO_BASE64",
    "TO_HEX", "TO_TIMESTAMP", "TO_UTC_TIMESTAMP",
)  # fmt: skip
"""The functions that are computed here."""
_NATIVE = ("POW", "CEILING", "TRUNCATE", "XOR", "CHAR_LENGTH", "CHARACTER_LENGTH", "SUBSTRING", "TRY_CAST",
           "DAYOFMONTH")  # fmt: skip
"""Further names known to polars."""
RENAMED: Mapping[str, str] = {
    name: one.name for name, one in BY_NAME.items() if name != one.name and name not in _NATIVE
}
_SUMS = {"DATE_ADD": "+", "DATE_SUB": "-"}
_TOKEN = re.compile(
    r"""(?sx) '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \s+ | \w+ | :: | ."""
)  # fmt: skip
_CLOSES = {"(": ")", "[": "]"}
_TYPED = ("DATE", "TIMESTAMP")


def with_own_calls(text: str) -> str:
    """The expression without names that polars does not know."""
    tokens = _TOKEN.findall(text)
    while (zoned := _zoned(tokens)) is not None:
        tokens = _as_call(tokens, zoned)
    for place, token in enumerate(tokens):
        opens = _next(tokens, place)
        name = token.upper()
        if opens is None or (tokens[opens] not in _CLOSES) or not re.fullmatch(r"\w+", token):
            continue
        closes = _closing(tokens, opens)
        if closes is None:
            continue
        if tokens[opens] == "[":
            if name == "ARRAY":
                tokens[opens], tokens[closes] = "(", ")"
                _mark(tokens, place, opens, closes, "LIST_VALUE")
            continue
        name = RENAMED.get(name, name)
        if name in OWN:
            _mark(tokens, place, opens, closes, name)
        elif name in _SUMS:
            _add(tokens, place, opens, closes, _SUMS[name])
        elif name != token.upper():
            tokens[place] = name
    return "".join(tokens)


def _mark(tokens: list[str], place: int, opens: int, closes: int, name: str) -> None:
    empty = not "".join(tokens[opens + 1 : closes]).strip()
    tokens[place] = "COALESCE"
    tokens[opens] = f"('{MARK}{name}'" + ("" if empty else ", ")


def _add(tokens: list[str], place: int, opens: int, closes: int, sign: str) -> None:
    """DATE_ADD(t, INTERVAL '1 day') as ((t) + INTERVAL '1 day')."""
    commas = [at for at in _outer(tokens, opens, closes) if tokens[at] == ","]
    if len(commas) == 1:
        tokens[place], tokens[opens], tokens[commas[0]] = "", "((", f") {sign} "


def _outer(tokens: list[str], opens: int, closes: int) -> Iterator[int]:
    """The positions between two brackets that are not inside further brackets."""
    depth = 0
    for at in range(opens + 1, closes):
        depth -= tokens[at] in (")", "]")
        if depth == 0:
            yield at
        depth += tokens[at] in _CLOSES


def _closing(tokens: list[str], opens: int) -> int | None:
    depth = 0
    for at in range(opens, len(tokens)):
        depth += (tokens[at] in _CLOSES) - (tokens[at] in _CLOSES.values())
        if depth == 0:
            return at
    return None


def _next(tokens: list[str], place: int) -> int | None:
    """The position of the next token that is not a space."""
    return next((at for at in range(place + 1, len(tokens)) if tokens[at].strip()), None)


def _before(tokens: list[str], place: int) -> int:
    """The position of the previous token that is not a space; -1: there is none."""
    return next((at for at in range(place - 1, -1, -1) if tokens[at].strip()), -1)


def _zoned(tokens: list[str]) -> tuple[int, int] | None:
    """The positions of AT and of the zone of the first AT TIME ZONE."""
    for place, token in enumerate(tokens):
        if token.upper() == "AT" and (time := _next(tokens, place)) and tokens[time].upper() == "TIME":
            zone = _next(tokens, time)
            if zone and tokens[zone].upper() == "ZONE" and (named := _next(tokens, zone)):
                return place, named
    return None


def _as_call(tokens: list[str], place: tuple[int, int]) -> list[str]:
    at, zone = place
    begins = _operand(tokens, at)
    operand = "".join(tokens[begins:at]).strip()
    return [*tokens[:begins], *_TOKEN.findall(f"FROM_UTC_TIMESTAMP({operand}, {tokens[zone]})"), *tokens[zone + 1 :]]


def _operand(tokens: list[str], end: int) -> int:
    """The begin of the operand that ends before a position: a column, a typed literal, or a bracketed expression."""
    at = _before(tokens, end)
    while at >= 0 and tokens[at] in (")", "]"):
        at = _opening(tokens, at)
        word = _before(tokens, at)
        if word < 0 or not re.fullmatch(r"\w+|\)|\]|\".*\"", tokens[word]):
            return max(at, 0)
        at = word
    before = _before(tokens, at)
    if before >= 0 and tokens[before] in (".", "::"):
        return _operand(tokens, before)
    if before >= 0 and tokens[at].startswith("'") and tokens[before].upper() in _TYPED:
        return before
    return max(at, 0)


def _opening(tokens: list[str], closes: int) -> int:
    depth = 0
    for at in range(closes, -1, -1):
        depth += (tokens[at] in _CLOSES.values()) - (tokens[at] in _CLOSES)
        if depth == 0:
            return at
    return -1
