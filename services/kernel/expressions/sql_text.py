"""Changes of an expression's text before polars parses it, for constructs whose parsed tree loses the meaning.

Polars parses `ok IS TRUE` as `ok = TRUE`, which is null for null where SQL says false; it parses `LEFT(s, 0)` as an
empty text, also for null, and `SUBSTR(s, 0)` as the column. So a standalone truth value becomes a comparison, `(0 =
0)`, and all truth values left in the tree were written after IS. A length of 0, or a position that is not above 0,
becomes a sum, which polars does not evaluate while parsing. Of `a IS DISTINCT FROM b OR c` it takes `b OR c` as the
operand, so the comparison gets brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.services.kernel.expressions.brackets import blanked
from holdfast.services.kernel.expressions.own_calls import with_own_calls

TRUE, FALSE = "(0 = 0)", "(0 = 1)"
"""Truth values outside IS."""
_TOKEN = re.compile(
    r"""(?ix) (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ )
      | (?P<is> \bIS \s+ (?:NOT\s+)? (?:TRUE|FALSE)\b )
      | (?P<truth> \b(?:TRUE|FALSE)\b (?! \s* [(.] ) )
      | (?P<cut> \b(?:LEFT|RIGHT|SUBSTR|SUBSTRING) \s* \( )
      | (?P<other> \w+ | . )""",
    re.DOTALL,
)
_DISTINCT = re.compile(r"(?i)\bIS\s+(?:NOT\s+)?DISTINCT\s+FROM\b")
_PART = re.compile(r"\w+|'[^']*'|&&|[^\w\s]")
_AROUND = frozenset(("AND", "OR", "XOR", "NOT", "WHEN", "THEN", "ELSE", "&&", ",", ";"))
"""Words and signs before and behind a comparison."""
_ZERO = re.compile(r"\s*[+-]?\s*0+\s*")
_BELOW = re.compile(r"\s*-\s*[0-9]+\s*")


def prepared(text: str) -> str:
    """The expression in a form that polars parses with the intended meaning."""
    return "".join(_parts(with_own_calls(_with_comparisons(text))))


def _with_comparisons(text: str) -> str:
    """The text with brackets around each comparison IS DISTINCT FROM."""
    blank, brackets = blanked(text), list[tuple[int, str]]()
    for match in _DISTINCT.finditer(blank):
        brackets += [(_begin(blank, match.start()), "("), (_end(blank, match.end()), ")")]
    for place, bracket in sorted(brackets, reverse=True):
        text = text[:place] + bracket + text[place:]
    return text


def _begin(blank: str, end: int) -> int:
    """The begin of the left operand."""
    depth, begin = 0, end
    for part in reversed([*_PART.finditer(blank, 0, end)]):
        word = part[0].upper()
        if depth == 0 and word in _AROUND | {"(", "[", "CASE"}:
            break
        depth += (word in (")", "]", "END")) - (word in ("(", "[", "CASE"))
        begin = part.start()
    return begin


def _end(blank: str, begin: int) -> int:
    """The end of the right operand."""
    depth, end, betweens = 0, begin, 0
    for part in _PART.finditer(blank, begin):
        word = part[0].upper()
        betweens += word == "BETWEEN" and depth == 0
        if depth == 0 and word == "AND" and betweens:
            betweens -= 1
        elif depth == 0 and word in _AROUND | {")", "]", "END", "IS"}:
            break
        depth += (word in ("(", "[", "CASE")) - (word in (")", "]", "END"))
        end = part.end()
    return end


def _parts(text: str) -> Iterator[str]:
    lengths = _zero_lengths(text)
    for token in _TOKEN.finditer(text):
        if token.start() in lengths:
            yield "0 -" if token[0] == "-" else "(0 + 0)"
        elif token["truth"]:
            yield TRUE if token["truth"].upper() == "TRUE" else FALSE
        else:
            yield token[0]


def _zero_lengths(text: str) -> set[int]:
    """The positions of a literal 0 as the last argument of LEFT, RIGHT or SUBSTR, and of the sign of a negative one of
    SUBSTR.
    """
    found, open_calls = set[int](), list[tuple[str, int]]()
    for token in _TOKEN.finditer(text):
        if token["cut"] or token[0] == "(":
            open_calls.append(((token["cut"] or "").upper(), token.end()))
        elif (token[0] == "," or token[0].upper() in ("FROM", "FOR")) and open_calls:
            open_calls[-1] = (open_calls[-1][0], token.end())
        elif token[0] == ")" and open_calls:
            cut, begin = open_calls.pop()
            argument = text[begin : token.start()]
            if cut and _ZERO.fullmatch(argument):
                found.add(begin + argument.index("0"))
            elif cut.startswith("SUBSTR") and _BELOW.fullmatch(argument):
                found.add(begin + argument.index("-"))
    return found
