"""The text of an expression before polars parses it, where the parsed tree no longer says what was written.

Polars parses `ok IS TRUE` as `ok = TRUE`, which is null for null where SQL says false, and `LEFT(s, 0)` as an empty
text, also of null. So a truth value of its own becomes a comparison, `(0 = 0)`, and what is left of truth values in the
tree was written behind IS; a length of 0 becomes a sum, which polars does not look into.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.services.kernel.expressions.own_calls import with_own_calls

TRUE, FALSE = "(0 = 0)", "(0 = 1)"
"""Truth values that do not stand behind IS."""
_TOKEN = re.compile(
    r"""(?ix) (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ )
      | (?P<is> \bIS \s+ (?:NOT\s+)? (?:TRUE|FALSE)\b )
      | (?P<truth> \b(?:TRUE|FALSE)\b (?! \s* [(.] ) )
      | (?P<cut> \b(?:LEFT|RIGHT) \s* \( )
      | (?P<other> \w+ | . )""",
    re.DOTALL,
)
_ZERO = re.compile(r"\s*[+-]?\s*0+\s*")


def prepared(text: str) -> str:
    """The same expression, so that its tree says what it means."""
    return "".join(_parts(with_own_calls(text)))


def _parts(text: str) -> Iterator[str]:
    lengths = _zero_lengths(text)
    for token in _TOKEN.finditer(text):
        if token.start() in lengths:
            yield "(0 + 0)"
        elif token["truth"]:
            yield TRUE if token["truth"].upper() == "TRUE" else FALSE
        else:
            yield token[0]


def _zero_lengths(text: str) -> set[int]:
    """Positions of a 0 that is the last argument of LEFT or RIGHT."""
    found, open_calls = set[int](), list[tuple[bool, int]]()
    for token in _TOKEN.finditer(text):
        if token["cut"] or token[0] == "(":
            open_calls.append((bool(token["cut"]), token.end()))
        elif token[0] == "," and open_calls:
            open_calls[-1] = (open_calls[-1][0], token.end())
        elif token[0] == ")" and open_calls:
            cut, begin = open_calls.pop()
            if cut and _ZERO.fullmatch(argument := text[begin : token.start()]):
                found.add(begin + argument.index("0"))
    return found
