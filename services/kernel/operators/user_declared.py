"""The declared outputs of a Python operator: one, or several by name.

Source: JOBS "Python operators".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.schemas.topics import NAME
from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.operators.side_output import together
from holdfast.services.kernel.operators.user_code import CodeUnavailable, PythonOperator
from holdfast.services.kernel.operators.user_errors import text_of
from holdfast.services.kernel.operators.user_output import OutputShape, SeveralShapes


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared columns of the output.

    fields: the columns, of all outputs together if there are several.
    outputs: the columns of each output by name, if there are several.
    """

    fields: dict[str, str]
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, code: PythonOperator, reference: str, given: Mapping[str, str]) -> Declared:
        """The declaration of an operator.

        given: the columns of its input.

        Raises:
            CodeUnavailable: the declaration is missing or invalid.
        """
        several: Any = _value(code, "outputs", reference, given)
        if several is None:
            return cls(_columns(_value(code, "output", reference, given), f"{reference}.output"))
        if getattr(code, "output", None) is not None:
            raise CodeUnavailable(f"{reference} has output and outputs: set one of them")
        if not isinstance(several, Mapping) or not several:
            raise CodeUnavailable(
                f"{reference}.outputs is no dict of outputs, such as {{'late': {{'score': 'float'}}}}"
            )
        for name in several:
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise CodeUnavailable(f"{reference}.outputs: {name!r} is no name, such as 'late'")
        outputs = {name: _columns(columns, f"{reference}.outputs['{name}']") for name, columns in several.items()}
        return cls(together(outputs), outputs)

    def differs(self, named: Sequence[str]) -> tuple[str, str] | None:
        """The mismatch with the outputs that the job file names, and its fix; None if there is none."""
        if set(named) == set(self.outputs):
            return None
        if not self.outputs:
            return "the code has one output", "leave them out, or give the class `outputs` in place of `output`"
        own = f"[{', '.join(self.outputs)}]"
        message = (
            f"the code's outputs are {own}, and here are [{', '.join(named)}]" if named else "the code has several"
        )
        return message, f"write `outputs: {own}`"

    def shape(self) -> OutputShape | SeveralShapes:
        return SeveralShapes(self.outputs) if self.outputs else OutputShape(self.fields)


def _value(code: PythonOperator, name: str, reference: str, given: Mapping[str, str]) -> Any:
    """The value of an attribute, or the result of a method with this name."""
    declared: Any = getattr(code, name, None)
    if not callable(declared):
        return declared
    try:
        return declared(dict(given))
    except Exception as error:
        raise CodeUnavailable(f"{reference}.{name} raised {text_of(error)}") from error


def _columns(declared: Any, where: str) -> dict[str, str]:
    if not isinstance(declared, Mapping) or not declared:
        reference, _, last = where.rpartition(".")
        raise CodeUnavailable(f"{reference} has no {last}: set it to a dict, such as {{'score': 'float'}}")
    for name, kind in declared.items():
        if not isinstance(name, str) or not isinstance(kind, str):
            raise CodeUnavailable(f"{where}: {name!r}: {kind!r} is not a name and the text of a type")
        if name.startswith("_"):
            raise CodeUnavailable(f"{where}: '{name}' begins with an underscore, such names belong to holdfast")
        try:
            field_types.dtype(kind)
        except ValueError as error:
            raise CodeUnavailable(f"{where}: {name}: {error}") from error
    return dict(declared)
