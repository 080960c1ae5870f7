"""Type names of SQL, pandas, Spark, Arrow and Python with their field types; used only for hints."""

from __future__ import annotations

import re

_WORDS = {
    **dict.fromkeys(("string", "text", "str", "varchar", "nvarchar", "char", "nchar", "character", "utf8", "uuid",
                     "enum", "category", "clob", "varchar2", "citext", "keyword"), "string"),
    **dict.fromkeys(("int", "integer", "long", "short", "byte", "bigint", "smallint", "tinyint", "mediumint",
                     "unsigned", "signed", "serial", "bigserial", "hugeint", "number", "uint", "ubigint"), "int"),
    **dict.fromkeys(("float", "double", "real"), "float"),
    **dict.fromkeys(("timestamp", "datetime", "timestamptz", "timestampntz", "timestampltz", "time", "instant",
                     "moment"), "timestamp"),
    **dict.fromkeys(("bytes", "binary", "varbinary", "blob", "bytea"), "bytes"),
    **dict.fromkeys(("bool", "boolean", "bit", "logical"), "bool"),
    **dict.fromkeys(("decimal", "numeric", "bignumeric", "money", "dec"), "decimal(p,s)"),
    **dict.fromkeys(("list", "array", "sequence", "repeated"), "list<...>"),
    **dict.fromkeys(("struct", "object", "record", "row", "json", "jsonb"), "struct<...>"),
    **dict.fromkeys(("map", "dict", "mapping", "hstore"), "map<string, ...>"),
    "date": "date",
}  # fmt: skip
"""The field type of each type name, without its number of bits, `_` and `Type`."""
_NULL = re.compile(r"\s*(\?|\|\s*(null|none)|\bnull)$", re.IGNORECASE)
_NOT_NULL = re.compile(r"\s+not\s+null$", re.IGNORECASE)
_OPTIONAL = re.compile(r"(?:optional|nullable|union)\s*[<\[(](.*)[>\])]", re.IGNORECASE)
_ITEMS = re.compile(r"(?:list|array|sequence)\w*\s*[<\[(](.*)[>\])]", re.IGNORECASE)
_STRUCT = re.compile(r"(?:struct|row|record)\w*\s*[<\[(](.*)[>\])]", re.IGNORECASE)
_MAP = re.compile(r"(?:map|dict|mapping)\w*\s*[<\[(](.*)[>\])]", re.IGNORECASE)
_DECIMAL = re.compile(r"(?:decimal|numeric|dec|number)\w*\s*[\[(]\s*(\d+)\s*(?:,\s*(\d+)\s*)?[\])]", re.IGNORECASE)
MAX_DEPTH = 8


def meant(text: str, depth: int = 0) -> str:
    """The most probable field type for a text; empty if none is similar."""
    if depth > MAX_DEPTH:
        return ""
    plain = _NOT_NULL.sub("", text.strip())
    if (bare := _NULL.sub("", plain)) != plain:
        found = meant(bare, depth + 1)
        return f"{found}?" if found and not found.endswith("?") else found
    if match := _OPTIONAL.fullmatch(plain):
        found = meant(match[1], depth + 1)
        return f"{found}?" if found and not found.endswith("?") else found
    if plain.endswith("[]"):
        return _list(plain[:-2], depth)
    if match := _ITEMS.fullmatch(plain):
        return _list(match[1], depth)
    if match := _STRUCT.fullmatch(plain):
        return _struct(match[1], depth)
    if match := _MAP.fullmatch(plain):
        return f"map<string, {meant(_parts(match[1])[-1], depth + 1) or '...'}>"
    if match := _DECIMAL.fullmatch(plain):
        return f"decimal({match[1]},{match[2] or 0})"
    word = re.split(r"[^a-z0-9_]", plain.lower())[0].replace("_", "")
    for form in (word, word.rstrip("0123456789"), word.removesuffix("type").rstrip("0123456789")):
        if form in _WORDS:
            return _WORDS[form]
    return ""


def _list(item: str, depth: int) -> str:
    return f"list<{meant(item, depth + 1) or '...'}>"


def _struct(inside: str, depth: int) -> str:
    """The struct type of fields such as `a int`, `a: int` or `a AS int`."""
    found = []
    for part in _parts(inside):
        match = re.fullmatch(r"\s*[`\"]?(\w+)[`\"]?\s*(?::|\s)\s*(.+?)\s*", part)
        if match is None:
            return "struct<...>"
        found.append(f"{match[1]}: {meant(match[2], depth + 1) or '...'}")
    return f"struct<{', '.join(found)}>"


def _parts(text: str) -> list[str]:
    """Splits a text at commas outside brackets."""
    found, level, start = list[str](), 0, 0
    for place, letter in enumerate(text):
        level += (letter in "<([") - (letter in ">)]")
        if letter == "," and level == 0:
            found.append(text[start:place])
            start = place + 1
    return [*found, text[start:]]
