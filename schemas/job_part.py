"""Common base of all parts of a job file: strict models and the kinds of their values.

Source: JOBS "A job file". An attribute's docstring is its line in `holdfast schema`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict

from holdfast.schemas.topics import NAME

MAX_PARALLELISM = 256
"""Tasks of one operator: frames are writers x readers per batch."""


class JobPart(BaseModel):
    """A mapping of the job file. Unknown keys are errors: a mistyped setting must not run with its default."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        """Each attribute is described by its docstring. By itself, pydantic reads all sources at each start."""
        found = handler(schema)
        properties = handler.resolve_ref_schema(found).get("properties", {})
        for name, text in cls.described().items():
            properties.get(name, {}).setdefault("description", text)
        return found

    def as_written(self) -> dict[str, Any]:
        """Returns plain data as the job file has it: without the settings that were left out."""
        return self.model_dump(mode="json", exclude_unset=True, by_alias=True)

    @classmethod
    def described(cls) -> dict[str, str]:
        """Returns the docstring of each attribute, by its key in the job file."""
        parts = (part for part in reversed(cls.__mro__) if issubclass(part, JobPart))
        found = {name: text for part in parts for name, text in _docstrings(part)}
        keys = {name: field.alias or name for name, field in cls.model_fields.items()}
        return {keys.get(name, name): text for name, text in found.items()}


def _docstrings(part: type) -> Iterator[tuple[str, str]]:
    """Attributes that a class declares, each with the text below it."""
    (declared,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(part))).body
    assert isinstance(declared, ast.ClassDef)
    for attribute, text in pairwise(declared.body):
        if (
            isinstance(attribute, ast.AnnAssign)
            and isinstance(attribute.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            yield attribute.target.id, inspect.cleandoc(str(text.value.value))


Name = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
Input = Annotated[str, Field(pattern=rf"^{NAME.pattern}(\.{NAME.pattern})?$")]
"""A source or operator, or one of the outputs of an operator, as `operator.output`."""
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Pattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9._*-]{1,249}$")]
"""The name of a topic, or a pattern with * for any letters."""
Text = Annotated[str, Field(min_length=1)]

# Strict: YAML has types, and `parallelism: yes` is a mistake, not a 1.
Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]

Tasks = Annotated[Whole, Field(ge=1, le=MAX_PARALLELISM)]
Milliseconds = Annotated[Whole, Field(ge=1, le=24 * 3600 * 1000)]
Seconds = Annotated[Number, Field(ge=0, le=366 * 24 * 3600)]
Span = Annotated[Number, Field(ge=0.000001, le=366 * 24 * 3600)]
"""Seconds that are not nothing; times are kept in microseconds."""
Shift = Annotated[Number, Field(ge=-366 * 24 * 3600, le=366 * 24 * 3600)]
"""Seconds later, or earlier."""
