"""A function of the job language, as listed.

A signature is `NAME(parameter: kind, 'written', [optional: kind], more: kind...) -> kind`. A parameter in single quotes
is a literal text, such as the unit of DATE_TRUNC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_PARAMETER = re.compile(r"(\[?)(?:'(\w+)'|(\w+): (\w+))(\.\.\.)?\]?")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter.

    kind: `written` is a literal text, `digit` a literal whole number.
    """

    name: str
    kind: str
    optional: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A function.

    also: other names of the function.
    """

    signature: str
    sentence: str
    example: str
    """An expression with a function of one row; the text of an aggregate over EXAMPLE_ROWS."""

    value: Any
    """The value of the example, as JSON."""

    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return re.split(r"[\s(]", self.signature)[0]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.also)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        between = self.signature.partition("(")[2].rpartition(") ->")[0]
        return tuple(
            Parameter(word or name, "written" if word else kind, bool(bracket), bool(dots))
            for bracket, word, name, kind, dots in _PARAMETER.findall(between)
        )
