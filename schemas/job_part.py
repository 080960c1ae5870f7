"""What every part of a job file has in common: strict models and the kinds of values they are made of.

Source: JOBS "A job file". An attribute's docstring is its line in `holdfast schema`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict

from schemas.topics import NAME

MAX_PARALLELISM = 256
"""Tasks of one operator: frames are writers x readers per batch."""


class JobPart(BaseModel):
    """A mapping of the job file. Unknown keys are errors: a mistyped setting must not run with its default."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


Name = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
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
