"""Advice for SQL that an expression or an aggregate cannot contain: the missing construct, and its replacement here.

The constructs come from ksqlDB, Flink, Spark and other SQL. A text in backticks is code that is accepted in place of
the given one; a test compiles each. Source: JOBS "each with its path and a hint".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.services.kernel.expressions.function_advice import FUNCTIONS
from holdfast.services.kernel.functions.catalogue import BY_NAME
from holdfast.services.kernel.suggestions import misspelt

_QUOTED = re.compile(r"'(?:[^']|'')*'")
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")


class Rule(NamedTuple):
    """A construct: its pattern in the text without quoted texts, and its advice, filled with the groups of the
    match.
    """

    pattern: re.Pattern[str]
    answer: str


def _rule(pattern: str, answer: str) -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE | re.DOTALL), answer)


_ONE_ROW = "an expression sees one row"
SYNTAX = (
    _rule(
        r"\$\d|\?\s*$|^\s*\?|(?<!:):[A-Za-z]\w*",
        "{match} is a parameter, and an expression has none: write the value itself",
    ),
    _rule(
        r"\bOVER\s*(?:\(|\w+\s*$)",
        f"OVER is not there, because {_ONE_ROW}: use an aggregate operator by `key`, with "
        "`emit: each` for a value after each record, or `top` for a rank",
    ),
    _rule(
        r"\bFILTER\s*\(\s*WHERE\b",
        "FILTER (WHERE ...) is not there: put the condition into the argument of an "
        "aggregate, such as `count(CASE WHEN {condition} THEN 1 END)`, or a filter operator before it",
    ),
    _rule(r"\bWITHIN\s+GROUP\b", "WITHIN GROUP is not there: an aggregate `quantile({column}, 0.5)` is the median"),
    _rule(r"\(\s*SELECT\b", f"a subquery is not there, because {_ONE_ROW}: use a join operator"),
    _rule(r"\bEXISTS\s*\(", f"EXISTS is not there, because {_ONE_ROW}: use a join operator"),
    _rule(
        r"^\s*(?:SELECT|WITH)\b",
        "SELECT is not there: write each column or expression as an item of its own, such "
        "as `select: [{column}]`, and conditions as a filter operator",
    ),
    _rule(
        r"\b(?:UNION|INTERSECT|EXCEPT)\b",
        "{match} is not there inside an expression: a union operator takes several inputs, `union: [a, b]`",
    ),
    _rule(r"\bGROUP\s+BY\b", "GROUP BY is not there: name the columns as `key: [{column}]` of an aggregate operator"),
    _rule(
        r"\bGROUPING\s+SETS\b|\bCUBE\s*\(|\bROLLUP\s*\(",
        "{match} is not there: write one aggregate operator for each set of columns",
    ),
    _rule(r"\bHAVING\b", "HAVING is not there: put a filter operator behind the aggregate"),
    _rule(
        r"\bORDER\s+BY\b",
        "ORDER BY is not there, because a stream has no end at which it could be sorted: the "
        "largest rows are those of a top operator, `top: {{k: 5, by: {column}}}`",
    ),
    _rule(
        r"\b(?:LIMIT|OFFSET|FETCH)\b",
        "{match} is not there: the largest rows are those of a top operator, `top: {{k: 5, by: {column}}}`",
    ),
    _rule(
        r"\b(?:INNER|LEFT|RIGHT|FULL|CROSS)\s+(?:OUTER\s+)?JOIN\b|\bJOIN\b",
        "JOIN is not there inside an expression: use a join operator",
    ),
    _rule(r"\bWHERE\b", "WHERE is not there: use a filter operator"),
    _rule(
        r"\b(?:LATERAL|UNNEST|EXPLODE|FLATTEN|POSEXPLODE)\b",
        "{match} is not there, because an expression gives one "
        "value for a row: take elements by place, `{column}[1]`, join them, `ARRAY_TO_STRING({column}, ',')`, or make "
        "several rows of one with an unnest operator",
    ),
    _rule(
        r"\b(?:NOT\s+)?BETWEEN\s+(?:A?SYMMETRIC)\b",
        "BETWEEN SYMMETRIC is not there: write the smaller limit first, "
        "or `{column} BETWEEN LEAST(1, 5) AND GREATEST(1, 5)`",
    ),
    _rule(r"\bSIMILAR\s+TO\b", "SIMILAR TO is not there: use a regular expression, `REGEXP_LIKE({column}, '^a')`"),
    _rule(r"\bIS\s+(?:NOT\s+)?NAN\b", "IS NAN is not there, because NaN is null here: write `{column} IS NULL`"),
    _rule(r"\bIS\s+(?:NOT\s+)?UNKNOWN\b", "IS UNKNOWN is not there: write `{column} IS NULL`"),
    _rule(r"\bESCAPE\b", "ESCAPE is not there: use a regular expression, `REGEXP_LIKE({column}, '50%')`"),
    _rule(
        r"\bCOLLATE\b",
        "COLLATE is not there: texts are compared by their code points; `LOWER({column})` makes "
        "letter case count for nothing",
    ),
    _rule(r"\bMEMBER\s+OF\b", "MEMBER OF is not there: write `ARRAY_CONTAINS({last}, {column})`"),
    _rule(
        r"\bI?LIKE\s+(?:(?!')\S|''\s*\|\|)",
        "a pattern of LIKE is a text in single quotes, such as `{column} LIKE 'a%'`; a pattern "
        "from a column is not there: `STRPOS({column}, {column}) > 0` finds one text in another",
    ),
    _rule(r"^\s*ALL\s", "ALL is not there: leave it out"),
    _rule(r"\bPIVOT\b", "PIVOT is not there: write `CASE WHEN {column} IS NULL THEN 0 ELSE 1 END` for each column"),
    _rule(r"^\s*\[", "a list in square brackets alone is not there: write `ARRAY[{column}, {column}]`"),
    _rule(
        r"\bDISTINCT\b(?!\s+FROM)",
        "DISTINCT is not there: distinct values are counted by an aggregate, "
        "`count_distinct({column})`, and rows that repeat are dropped by a dedup operator",
    ),
    _rule(r"\bCONVERT\s*\(", "CONVERT is not there: write `CAST({last} AS BIGINT)`"),
    _rule(r"\bCASE\b(?!.*\bEND\b)", "CASE has no END: write `CASE WHEN {column} IS NULL THEN 0 ELSE 1 END`"),
    _rule(r"\bCASE\b(?!.*\bWHEN\b)", "CASE has no WHEN: write `CASE WHEN {column} IS NULL THEN 0 ELSE 1 END`"),
    _rule(r"\bIN\s*\(\s*\)", "IN () has no value: name at least one, such as `{column} IN ({column})`"),
    _rule(
        r"\bMAP\s*\[|\bSTRUCT\s*\(|\bROW\s*\(",
        "{match} is not there: make a column of each value, or a struct, `NAMED_STRUCT('a', {column})`",
    ),
    _rule(
        r"\]\s*\.\s*[A-Za-z_\"]",
        "a member of an item is not there: a select makes `{column}[1]` a column of its own, and another select "
        "behind it takes the member",
    ),
    _rule(r"&&", "&& is not there: write AND"),
    _rule(r"(?<![<>=!])!(?![=~])", "! is not there: write NOT"),
    _rule(r"\*\*", "** is not there: write `POWER({column}, 2)`"),
    _rule(r"\^", "^ is not there: write `POWER({column}, 2)` for a power, `XOR({column}, 1)` for bits"),
    _rule(
        r"->>?",
        "-> is not there: a member of a struct is written with a dot, and a text is read by "
        "`JSON_EXTRACT_STRING({column}, '$.a')`",
    ),
    _rule(r"(?:^|[(,+*/=<>-])\s*~", "~ is not there in front of a value: write `BIT_NOT({column})`"),
    _rule(
        r"!?~\*?\s*(?![\s*'])\S",
        "a pattern of ~ is a text in single quotes, such as `{column} ~ '^a'`; a pattern from a column is taken by "
        "`REGEXP_LIKE({column}, {column})`",
    ),
    _rule(r"<<|>>", "{match} is not there: write `{column} * POWER(2, 3)` or `{column} // POWER(2, 3)`"),
    _rule(r"\bDIV\b(?!\s*\()", "DIV is not there: write `{column} // 2`"),
    _rule(
        r"^\s*\*\s*$|\.\s*\*",
        "* is not there: name each column, such as `select: [{column}]`; a filter operator keeps them all",
    ),
    _rule(r"--", "a comment is no expression: comments of a job file begin with #"),
    _rule(r"\bE''", "E'...' is not there: a text in single quotes is taken as it is, without escapes"),
    _rule(r"\{", "{{...}} is not there: a struct is `NAMED_STRUCT('a', {column})`"),
    _rule(r";", "; is not there: an expression is one value, without a semicolon"),
)
"""Patterns of unsupported constructs and their advice, in the order of the tests; the first match counts."""

KNOWN = tuple(BY_NAME)
"""The known functions, for "did you mean"."""


def without_texts(text: str) -> str:
    """The text with emptied quoted texts, so that words in them do not count as SQL."""
    return _QUOTED.sub("''", text)


def of_syntax(text: str, columns: Sequence[str]) -> str:
    """The advice for an unsupported construct in the text; empty if the text has none."""
    bare = without_texts(text)
    for pattern, answer in SYNTAX:
        if match := pattern.search(bare):
            named = _columns_of(bare, columns)
            condition = re.search(r"\bWHERE\s+(.*?)\)\s*$", text, re.IGNORECASE | re.DOTALL)
            return answer.format(
                match=re.sub(r"\s*[\[(]$", "", match[0].strip()).upper(),
                column=named[0] if named else "column",
                last=named[-1] if named else "column",
                condition=condition[1].strip() if condition else "column > 0",
            )
    return ""


def of_function(text: str) -> str:
    """The advice for the first call of a function that is known to be unsupported; empty if there is none."""
    for match in _CALL.finditer(without_texts(text)):
        if advise := FUNCTIONS.get(match[1].lower()):
            return f"{match[1].upper()} is not there: {advise(arguments_of(text, match[1]))}"
    return ""


def of_unknown_function(name: str) -> str:
    """The advice for an unknown function."""
    if known := BY_NAME.get(name.upper()):
        signature = re.sub(rf"^{known.name}\b", name.upper(), known.signature)
        return f"{name.upper()} is given other arguments than it takes: it is {signature}"
    near = misspelt(name, KNOWN)
    return f"there is no function {name.upper()}" + (f" ({near})" if near else ": a Python operator can compute it")


def calls_of(text: str) -> list[tuple[str, list[str]]]:
    """Yields each call in the text, outermost first: the name and the arguments."""
    blank = _QUOTED.sub(lambda found: "'" + "_" * (len(found[0]) - 2) + "'", text)
    return [(match[1], _arguments(text, blank, match.end())) for match in _CALL.finditer(blank)]


def arguments_of(text: str, function: str) -> list[str]:
    """The arguments in the brackets of the first call of the function."""
    return next((given for name, given in calls_of(text) if name.lower() == function.lower()), [])


def _arguments(text: str, blank: str, start: int) -> list[str]:
    """The arguments of a call.

    blank: the text with blanked quoted texts, of equal length.
    """
    found, depth = [], 0
    for place in range(start, len(blank)):
        letter = blank[place]
        if letter in ",)" and depth == 0:
            found.append(text[start:place].strip())
            start = place + 1
            if letter == ")":
                break
        depth += (letter in "([") - (letter in ")]")
    return [one for one in found if one]


def _columns_of(bare: str, columns: Sequence[str]) -> list[str]:
    words = re.findall(r"[A-Za-z_]\w*", bare)
    return [word for word in words if word in columns]
