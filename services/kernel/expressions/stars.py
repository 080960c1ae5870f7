"""All columns as an item of a select: `*`, `* EXCEPT (a, b)`, `* REPLACE (a / 60 AS a)`.

EXCLUDE is another word for EXCEPT. Source: JOBS "select".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.services.kernel.expressions import brackets
from holdfast.services.kernel.expressions.parsing import ExpressionError, is_bare, name_of, source_of
from holdfast.services.kernel.suggestions import suggest

_PART = re.compile(r"\s*(EXCEPT|EXCLUDE|REPLACE)\s*(?:\(|([A-Za-z_]\w*|\"[^\"]+\")\s*)", re.IGNORECASE)


class Star(NamedTuple):
    """The columns of a star.

    left_out: columns that are omitted.
    replaced: by column, the expression that replaces it.
    """

    left_out: tuple[str, ...]
    replaced: Mapping[str, str]


def expanded(items: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """Yields the items, with each star replaced by its columns.

    Raises:
        ExpressionError: an item names an unknown column, or cannot be parsed.
    """
    for item in items:
        star = read(item)
        if star is None:
            yield item
            continue
        if unknown := [name for name in (*star.left_out, *star.replaced) if name not in columns]:
            raise ExpressionError(*(_unknown(name, columns) for name in unknown))
        for name in columns:
            if name in star.replaced:
                yield f'{star.replaced[name]} AS "{name}"'
            elif name not in star.left_out and not name.startswith("_"):
                yield name if is_bare(name) else f'"{name}"'


def sources(items: Sequence[str]) -> Iterator[str]:
    """The expressions of items that can be parsed."""
    for item in items:
        star = read(item)
        yield from (source_of(item),) if star is None else star.replaced.values()


def is_star(item: str) -> bool:
    return item.lstrip().startswith("*")


def read(item: str) -> Star | None:
    """The star of an item; None if the item is not a star.

    Raises:
        ExpressionError: the text after the star cannot be parsed.
    """
    if not is_star(item):
        return None
    text = item.strip()
    blank, place = brackets.blanked(text), 1
    left_out, replaced = list[str](), dict[str, str]()
    while text[place:].strip():
        part = _PART.match(text, place)
        if part is None and text[place:].lstrip().startswith(","):
            raise ExpressionError(f"'{item}' is several items: write each by itself, ['*', a + 1 AS b]")
        if part is None or (part[2] and part[1].upper() == "REPLACE"):
            raise ExpressionError(f"'{item}' cannot be read: write `* EXCEPT (a, b)` or `* REPLACE (a / 60 AS a)`")
        place = part.end()
        if part[2]:
            given = [part[2]]
        else:
            stop = brackets.closing(blank, place)
            given, place = brackets.split(text, blank, place, stop - 1), stop
        if part[1].upper() == "REPLACE":
            replaced |= {name_of(one): source_of(one) for one in given}
        else:
            left_out += [one.strip('"') for one in given]
    return Star(tuple(left_out), replaced)


def _unknown(name: str, columns: Sequence[str]) -> str:
    known = [column for column in columns if not column.startswith("_")]
    hint = suggest(name, known)
    return f"there is no column '{name}'" + (f" ({hint})" if hint else "")
