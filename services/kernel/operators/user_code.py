"""The class that a user subclasses to write an operator in Python, and how it is found.

Users import it from the package `holdfast`. Source: JOBS "Python operators".
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, ClassVar

import polars as pl

from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.kernel.operators.user_state import State
from holdfast.services.kernel.suggestions import did_you_mean


class CodeUnavailable(HoldfastError, ValueError):
    """User code that cannot be had, or is not what it must be: the user must know."""


@dataclass(frozen=True, slots=True)
class Context:
    """The batch, in place of clock and chance, so that every copy and every replay computes the same.

    batch: its number. watermark_us: no row older than this will count any more (microseconds since 1970).
    random: a generator seeded by the operator and the batch. now: the newest event time of the batch; the watermark
    where the batch has no rows.
    """

    batch: int
    watermark_us: int
    random: Random
    now: datetime


class PythonOperator:
    """Subclass this, and name it in a job file: `scored: {python: "my_package.scoring:Score", input: flights}`.

        from holdfast import PythonOperator

        class Score(PythonOperator):
            output = {"carrier": "string", "score": "float"}

            def on_batch(self, batch, state, ctx):
                seen = state.table("seen")
                ...
                return batch.select("carrier", score=pl.col("delay") / 60)

    A subclass gives `output`, the type text by name of the columns that come out: a dict, or a method that takes the
    input's and returns one. Its `__init__` takes the job file's `params` by name.

    What it computes must depend on nothing but its arguments: no clock, no `random`, no files or services, nothing
    kept on `self` from batch to batch. State belongs in tables: `state.table(name)` has get, put and delete. With
    a `key` in the job file, rows of one key always meet the same tables.

    Rows come as they come: none is dropped as late, so some may be older than the watermark of an earlier call. Only
    the operator knows what it has closed; it may remember the watermark in a table, and leave out what is too old.
    """

    output: ClassVar[dict[str, str] | Callable[..., dict[str, str]]]

    def __init__(self, **params: Any) -> None:
        self.params = params

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame | None:
        """Rows in, rows out; called with at least one row.

        Args:
            batch: the input's columns and `_time`, the event time in microseconds since 1970.

        Returns:
            The columns of `output`, others are dropped; None for no rows. Without `_time` the rows get the largest
            `_time` of the batch. What is raised goes the way of the job's `on_error`, and what was written to tables
            is undone; a part of the batch may then be given again, without the rows at fault.
        """
        raise NotImplementedError(f"{type(self).__name__} has no on_batch")

    def on_watermark(self, watermark_us: int, state: State, ctx: Context) -> pl.DataFrame | None:
        """Called after on_batch whenever the watermark has risen; at the end of the stream it is 2**63 - 1."""
        return None


def load(reference: str, allow: Sequence[str] | None) -> type[PythonOperator]:
    """The class of `package.module:Class`.

    Args:
        allow: modules it may come from, with all below them; None: any.

    Raises:
        CodeUnavailable: saying what is wrong.
    """
    module_name, colon, class_name = reference.partition(":")
    if not colon or not module_name or not class_name:
        raise CodeUnavailable(f"'{reference}' is not of the form package.module:Class")
    if allow is not None and not any(module_name == one or module_name.startswith(f"{one}.") for one in allow):
        hint = did_you_mean(module_name, allow) or f"start the workers with HOLDFAST_PLUGINS={module_name}"
        raise CodeUnavailable(f"module {module_name} is not on the allow-list, {hint}")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise CodeUnavailable(f"module {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, class_name, None)
    if found is None:
        names = [name for name, one in vars(module).items() if isinstance(one, type) and not name.startswith("_")]
        hint = did_you_mean(class_name, names) or f"it has {', '.join(sorted(names)) or 'no class'}"
        raise CodeUnavailable(f"module {module_name} has no class {class_name}, {hint}")
    if not isinstance(found, type) or not issubclass(found, PythonOperator):
        raise CodeUnavailable(f"{reference} is no subclass of PythonOperator: `from holdfast import PythonOperator`")
    return found
