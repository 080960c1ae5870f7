"""Keys as people write them: text, JSON, or a JSON list of the parts of a key.

Source: JOBS "holdfast state".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from holdfast.schemas.decoders import json
from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.codecs.fields import required
from holdfast.services.kernel.codecs.text_columns import TextColumns
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.operators.user_state import Key


def parts_of(text: str) -> list[Any]:
    """Parts of a key: those of a JSON list, or the text itself."""
    parsed = _parsed(text)
    return parsed if isinstance(parsed, list) else [text]


def encoded(text: str, fields: Mapping[str, str]) -> bytes:
    """A key in the form of tables and routing.

    fields: types of the key's columns, by name.

    Raises:
        CommandFailed: the text is no key of these columns.
    """
    if not fields:
        raise CommandFailed("the operator has no key", "leave out the KEY", USAGE)
    parts, names = parts_of(text), list(fields)
    if len(parts) != len(names):
        message = f"the key is {', '.join(names)}, and '{text}' has {len(parts)} of {len(names)} parts"
        raise CommandFailed(message, f"write it as JSON, such as {_example(fields)}", USAGE)
    record = {name: _fit(part, fields[name]) for name, part in zip(names, parts, strict=True)}
    read = TextColumns(fields, names, "json", None).read([msgspec.json.encode(record)])
    if read.refused:
        raise CommandFailed(f"key '{text}': {read.refused[0]}", f"the key is {_types(fields)}", USAGE)
    return canonical_keys.encode(pl.DataFrame(read.columns), names)[0]


def candidates(text: str) -> list[Key]:
    """Keys of a Python operator that the text may stand for: the code chooses their types."""
    parsed = _parsed(text)
    if isinstance(parsed, list):
        return [tuple(parsed)]
    return [text] if isinstance(parsed, dict) or parsed == text else [parsed, text]


def begins(key: Sequence[Any], prefix: Sequence[Any]) -> bool:
    """True if the key begins with the parts of the prefix, whose last part may be the beginning of a text."""
    if len(prefix) > len(key):
        return False
    *whole, last = prefix
    return list(key[: len(whole)]) == whole and _begins(key[len(whole)], last)


def _begins(part: Any, last: Any) -> bool:
    if isinstance(part, str):
        return part.startswith(str(last))
    return part == last or (isinstance(last, str) and part == _parsed(last))


def _fit(part: Any, kind: str) -> Any:
    """The part as JSON of the type; a part of another type than text may have been written as text."""
    if not isinstance(part, str):
        return str(part) if required(kind) == "string" and part is not None else part
    return _parsed(part) if required(kind) in ("int", "float", "bool") else part


def _parsed(text: str) -> Any:
    """The JSON that a text is; the text itself where it is none."""
    try:
        return json.decode(text.encode())
    except msgspec.DecodeError:
        return text


def _example(fields: Mapping[str, str]) -> str:
    shown = {"int": "7", "float": "1.5", "bool": "true"}
    return f"'[{', '.join(shown.get(required(kind), chr(34) + name + chr(34)) for name, kind in fields.items())}]'"


def _types(fields: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in fields.items())
