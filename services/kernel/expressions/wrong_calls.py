"""Calls whose arguments do not fit, each explained under the name in the text.

A text is taken apart from its inner calls outwards: a correct or explained call is replaced by a column. So the rest of
the text is checked without the inner form of calls, and messages show each call as written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import polars as pl
from polars.exceptions import PanicException, PolarsError

from holdfast.services.kernel.codecs.maps import is_map
from holdfast.services.kernel.expressions import brackets, own_functions, refused, type_words
from holdfast.services.kernel.functions.catalogue import BY_NAME
from holdfast.services.kernel.functions.function import Function, Parameter
from holdfast.services.kernel.suggestions import suggest

Schema = Mapping[str, pl.DataType]
TypeOf = Callable[[str, Schema], pl.DataType]
"""Returns the type of an expression; raises PolarsError or ValueError if it has a mistake."""
Judge = Callable[[str, Schema], list[str]]
"""Returns the mistakes of a text without calls."""

_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_INFIX = ("XOR", "DIV", "CASE")
"""Names of functions that are also words of SQL."""
_BETWEEN = {
    "EXTRACT": r"\bFROM\b",
    "POSITION": r"\bIN\b",
    "TRIM": r"\bFROM\b",
    "CAST": r"\bAS\b",
    "TRY_CAST": r"\bAS\b",
}
"""The word between the arguments of a function without commas."""
_TEXT, _TIME = Parameter("text", "text"), Parameter("moment", "time")
_PARAMETERS: Mapping[str, tuple[Parameter, ...]] = {
    "EXTRACT": (Parameter("part", "word"), _TIME),
    "POSITION": (Parameter("part", "text"), _TEXT),
    "TRIM FROM": (_TEXT, Parameter("letters", "text")),
    "CAST": (Parameter("value", "any"), Parameter("type", "word")),
    "TRY_CAST": (Parameter("value", "any"), Parameter("type", "word")),
    "DATE_ADD": (_TIME, Parameter("span", "word")),
    "DATE_SUB": (_TIME, Parameter("span", "word")),
}
"""The parameters of functions whose signature contains words of SQL."""
_PARTS = (
    "year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "hour", "minute", "second", "epoch", "century",
    "decade", "millennium", "isoyear", "millisecond", "microsecond", "nanosecond",
)  # fmt: skip
_RESULTS: Mapping[str, pl.DataType] = {
    "int": pl.Int64(), "float": pl.Float64(), "number": pl.Float64(), "text": pl.String(), "bool": pl.Boolean(),
    "time": pl.Datetime("us", "UTC"), "timestamp": pl.Datetime("us", "UTC"), "date": pl.Date(),
}  # fmt: skip


class Apart:
    """A text that is taken apart.

    mistakes: the mistakes of its calls, in the order of the text.
    """

    def __init__(self, schema: Schema, type_of: TypeOf, judge: Judge) -> None:
        self.schema = dict(schema)
        self.mistakes = list[str]()
        self._type_of = type_of
        self._judge = judge
        self._written = dict[str, str]()

    def without_calls(self, text: str) -> str | None:
        """The text with a column in place of each call; None if the type of an explained call is unknown."""
        blank, parts, begin, known = brackets.blanked(text), list[str](), 0, True
        for match in _CALL.finditer(blank):
            if match.start() < begin or not _is_call(match[1], blank[: match.start()]):
                continue
            stop = brackets.closing(blank, match.end())
            column = self._call(match[1].upper(), text[match.start() : stop], text[match.end() : stop - 1])
            known = known and column is not None
            parts += [text[begin : match.start()], column or ""]
            begin = stop
        return "".join((*parts, text[begin:])) if known else None

    def as_written(self, mistake: str) -> str:
        """The mistake with each call in place of its column."""
        for column, call in self._written.items():
            mistake = mistake.replace(column, call)
        return mistake

    def _call(self, name: str, whole: str, inside: str) -> str | None:
        before, function = len(self.mistakes), BY_NAME[name]
        flat = self.without_calls(inside)
        if flat is None:
            return None
        given = _arguments(name, flat)
        kinds = [self._kind(one) for one in given]
        if len(self.mistakes) == before:
            try:
                return self._column(whole, self._type_of(f"{name}({flat})", self.schema))
            except refused.Refused as error:
                self._add(f"'{whole}' {written_as(str(error), function, name)}")
            except (PolarsError, PanicException, ValueError) as error:
                self._add(_answer(function, name, given, kinds, str(error)))
        result = function.signature.rpartition("-> ")[2]
        return self._column(whole, _RESULTS[result]) if result in _RESULTS else None

    def _add(self, mistake: str) -> None:
        self.mistakes.append(self.as_written(mistake))

    def _kind(self, argument: str) -> pl.DataType | None:
        """The type of an argument; None if it has none, such as a word of SQL, or has a mistake, which is noted."""
        try:
            return self._type_of(argument, self.schema)
        except (PolarsError, PanicException, ValueError):
            self.mistakes += [self.as_written(one) for one in self._judge(argument, self.schema)]
            return None

    def _column(self, whole: str, kind: pl.DataType) -> str:
        column = f"_call_{len(self._written)}_"
        self.schema[column] = kind
        self._written = {column: whole, **self._written}
        return column


_FORMS = (
    (r"FROM_UTC_TIMESTAMP\(moment: timestamp, 'zone'\)", "moment AT TIME ZONE 'zone'"),
    (r"FROM_UTC_TIMESTAMP", "AT TIME ZONE"),
    (r"LIST_VALUE\(([^()]*)\)", r"ARRAY[\1]"),
)
"""Names of functions in messages, and the text for them where the expression has no such name."""


def without_hidden_names(said: str, text: str) -> str:
    """The advice without names of functions that were written in another form."""
    for pattern, form in _FORMS:
        name = pattern.partition("\\")[0]
        if not re.search(rf"(?i)\b{name}\b", text):
            said = re.sub(rf"\b{pattern}", form, said)
    return said


def written_as(said: str, function: Function, name: str) -> str:
    """The advice about a call, under the name in the text."""
    return re.sub(rf"\b{function.name}\b", name, said)


def _is_call(word: str, before: str) -> bool:
    name = word.upper()
    if name in _INFIX and re.search(r"[\w)\]'\"]\s*$", before) and not re.search(r"(?i)\b(?:AND|OR|NOT)\s*$", before):
        return False
    return name in BY_NAME and name != "CASE"


def _arguments(name: str, inside: str) -> list[str]:
    blank = brackets.blanked(inside)
    if BY_NAME[name].name == "SUBSTR" and (words := list(re.finditer(r"(?i)\bFROM\b|\bFOR\b", blank))):
        begins, ends = [0, *(word.end() for word in words)], [*(word.start() for word in words), len(inside)]
        return [inside[begin:end].strip() for begin, end in zip(begins, ends, strict=True)]
    if (word := _BETWEEN.get(name)) and (match := re.search(word, blank, re.IGNORECASE)):
        given = [inside[: match.start()].strip(), inside[match.end() :].strip()]
        if name != "TRIM":
            return given
        letters = re.sub(r"(?i)^(?:BOTH|LEADING|TRAILING)\b\s*", "", given[0])
        return [given[1], *([letters] if letters else [])]
    return brackets.split(inside, blank, 0, len(inside))


def _answer(
    function: Function, name: str, given: Sequence[str], kinds: Sequence[pl.DataType | None], message: str
) -> str:
    signature = written_as(function.signature, function, name)
    try:
        parameters = [*(_PARAMETERS.get(_form(name, given)) or own_functions.parameters(function, len(given)))]
    except refused.Refused:
        parameters = []
    if len(parameters) != len(given):
        return f"{name} is given other arguments than it takes: {signature}"
    of_each = list(zip(parameters, given, kinds, strict=False))
    for parameter, text, _ in of_each:
        form = {"written": r"'(?:[^']|'')*'", "digit": r"[+-]?\d+"}.get(parameter.kind, "")
        if form and not re.fullmatch(form, text):
            return _to_write_out(name, parameter, signature)
    if part := re.search(r"does not support '([^']*)'", message):
        return f"{name} has no part '{part[1]}' ({suggest(part[1], _PARTS) or 'known: ' + ', '.join(_PARTS)})"
    wrong = [
        (parameter, text, kind)
        for parameter, text, kind in of_each
        if kind is not None
        and kind != pl.Null
        and parameter.kind != "word"
        and not own_functions.suits(parameter.kind, kind)
    ]
    if wrong:
        said = " and ".join(_unsuited(*one) for one in wrong)
        parameter, text, kind = wrong[0]
        return f"{name} takes {said}{_hint(text, kind, parameter.kind)} ({signature})"
    if said := _of_written(function, name, given, message):
        return f"{said} ({signature})"
    if re.search(r"literal|cannot be 'null'", message) and (
        texts := [one for one, text, _ in of_each if one.kind == "text" and text[:1] != "'"]
    ):
        return _to_write_out(name, texts[-1], signature)
    said = " and ".join(f"{text} is {type_words.in_words(kind)}" for _, text, kind in of_each if kind is not None)
    texts_of = [text for _, text, kind in of_each if kind == pl.String]
    others = [(text, kind) for _, text, kind in of_each if kind is not None and kind != pl.String]
    hint = "; a span is written `INTERVAL '1 day'`" if "span" in {one.name for one in parameters} else ""
    if texts_of and others and not others[0][1].is_nested():
        hint = f"; write `CAST({others[0][0]} AS VARCHAR)` for the value as text"
    return f"{name} does not take these together: {said}{hint} ({signature})"


def _of_written(function: Function, name: str, given: Sequence[str], message: str) -> str:
    """The advice for an unsuitable literal argument; empty if there is none."""
    texts = [text[1:-1] for text in given if re.fullmatch(r"'(?:[^']|'')*'", text)]
    if function.name == "TRIM" and len(given) == 2:
        letters = given[1] if given[1][:1] == "'" else "'a'"
        return f"{name} takes letters in another form, written out: `{name}(BOTH {letters} FROM {given[0]})`"
    if function.name == "ROUND" and "negative" in message:
        tens = f"1{'0' * int(given[1].strip()[1:])}"
        return f"{name} takes 0 or more digits: write `{name}({given[0]} / {tens}.0) * {tens}`"
    if function.name in ("LPAD", "RPAD") and "single character" in message:
        return f"{name} fills with one letter, and not with '{texts[-1]}'"
    if function.name.startswith("REGEXP") and texts:
        try:
            refused.check_pattern(texts[0])
        except refused.Refused as error:
            return f"{name} {error}"
    return ""


def _form(name: str, given: Sequence[str]) -> str:
    """The name of the call's form: TRIM(BOTH 'a' FROM text) has one argument more than the signature."""
    return "TRIM FROM" if name == "TRIM" and len(given) == 2 else name


def _unsuited(parameter: Parameter, text: str, kind: pl.DataType) -> str:
    return f"{own_functions.WORDS[parameter.kind]} for '{parameter.name}', and {text} is {type_words.in_words(kind)}"


def _to_write_out(name: str, parameter: Parameter, signature: str) -> str:
    form = "a whole number" if parameter.kind == "digit" else "a text in single quotes"
    return f"{name} needs {form} written out for '{parameter.name}': {name} is {signature}"


def _hint(text: str, kind: pl.DataType, wanted: str) -> str:
    if wanted == "bool":
        return f"; compare it, such as `{text} IS NOT NULL`"
    if wanted in ("number", "int"):
        number = type_words.as_number(text, kind)
        if kind == pl.String:
            number = f"CAST({text} AS BIGINT)" if wanted == "int" else number
            return f"; write `{number}` for the text as a number"
        if kind.is_numeric():
            return f"; write `CAST({text} AS BIGINT)` for the value as a whole number"
        return f"; write `{number}` for the value as a number" if number else ""
    if wanted in ("time", "timestamp"):
        if kind == pl.String:
            return f"; write `CAST({text} AS TIMESTAMP)` for the text as a time"
        return f"; write `TO_TIMESTAMP({text})` for seconds as a time" if kind.is_numeric() else ""
    if wanted == "list" and is_map(kind):
        return f"; `MAP_KEYS({text})`, `MAP_VALUES({text})` and `MAP_ENTRIES({text})` are lists"
    if wanted == "text" and is_map(kind):
        return f"; `MAP_GET({text}, 'key')` takes a map"
    if wanted == "text" and isinstance(kind, pl.List):
        return f"; `ARRAY_LENGTH({text})`, `ARRAY_TO_STRING({text}, ',')` and `{text}[1]` take a list"
    if wanted == "text" and not kind.is_nested() and kind != pl.Binary:
        return f"; write `CAST({text} AS VARCHAR)` for the value as text"
    return ""
