"""The base class of users' Python operators, and the loading of users' classes.

Users import it from the package `holdfast`. Source: JOBS "Python operators".
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any, ClassVar

import polars as pl

from holdfast.services.kernel.errors import HoldfastError, InvalidRecord
from holdfast.services.kernel.operators.moments import moment
from holdfast.services.kernel.operators.user_state import Key, State
from holdfast.services.kernel.operators.user_timers import Timers
from holdfast.services.kernel.suggestions import did_you_mean

Returned = pl.DataFrame | Mapping[str, pl.DataFrame | None] | None
"""Rows; of an operator with several outputs, rows by output."""


class CodeUnavailable(HoldfastError, ValueError):
    """An error for user code that cannot be loaded or does not have the required form."""


@dataclass(frozen=True, slots=True)
class Context:
    """The batch, in place of clock and chance, so that every copy and every replay computes the same.

    batch: the number of the batch.
    watermark_us: no older row will count any more (microseconds since 1970).
    random: a generator seeded by the operator and the batch.
    now: the newest event time of the batch; the watermark for a batch without rows; in `on_timer` the time of the
    timers.
    by_clock: True if this call of `on_timer` is for timers by the time of day; `now` is then the newest known event
    time.
    """

    batch: int
    watermark_us: int
    random: Random
    now: datetime
    timers: Timers | None = field(default=None, repr=False)
    by_clock: bool = False
    timers_by_clock: Timers | None = field(default=None, repr=False)

    @property
    def clock(self) -> datetime:
        """The time of day at which the batch was cut, by the clock of the worker that cut it.

        It never decreases, and is equal on every copy and in every replay. The job file enables it by `clock: true`.
        """
        return moment(max(0, self._by_clock().newest))

    def set_timer(self, key: Key, when: int | datetime, clock: bool = False) -> None:
        """Sets a timer for a key: `on_timer` is called once the watermark has reached `when`, at once if it already
        has.

        A key may have many timers, one for each time.

        Args:
            key: a key, as of a table.
            when: microseconds since 1970, as `_time`, or a datetime.
            clock: True if `when` is a time of day, as `ctx.clock`, instead of an event time.
        """
        self._timers(clock).set(key, when)

    def cancel_timer(self, key: Key, when: int | datetime, clock: bool = False) -> None:
        """Cancels the timer of a key for this time, if there is one."""
        self._timers(clock).cancel(key, when)

    def _timers(self, clock: bool) -> Timers:
        if self.timers is None:
            raise TypeError("timers need a method on_timer(self, time_us, keys, state, ctx): the operator has none")
        return self._by_clock() if clock else self.timers

    def _by_clock(self) -> Timers:
        if self.timers_by_clock is None:
            raise InvalidRecord("the code asks for the time of day: say `clock: true` for its operator in the job file")
        return self.timers_by_clock


class PythonOperator:
    """The base of user operators. A job file names a subclass: `{python: "my_package.scoring:Score", input: flights}`.

        from holdfast import PythonOperator

        class Score(PythonOperator):
            output = {"carrier": "string", "score": "float"}

            def on_batch(self, batch, state, ctx):
                seen = state.table("seen")
                ...
                return batch.select("carrier", score=pl.col("delay") / 60)

    A subclass defines `output`, the type text of each output column by name: a dict, or a method that takes the dict of
    the input and returns that of the output. Its `__init__` takes the job file's `params` by name.

    Its results must depend only on its arguments: no clock, no `random`, no files or services, no data kept on `self`
    between batches. State belongs in tables: `state.table(name)` has get, put and delete. With a `key` in the job file,
    rows of one key always reach the same tables.

    No row is dropped as late, so some rows may be older than the watermark of an earlier call. An operator that closes
    results by time may keep the watermark in a table, and ignore rows that are too old.

    With `ask` in the job file `on_batch` is an `async def`, and the cut log decides its result: it may then call
    services, and has no state.

    An operator with several outputs defines `outputs` in place of `output`: the columns of each output by its name. The
    job file names them, `outputs: [late, ok]`, and its methods return a dict of frames by output; an output that is
    left out has no rows. Other operators read an output as `scored.late`.
    """

    output: ClassVar[dict[str, str] | Callable[..., dict[str, str]]]
    outputs: ClassVar[dict[str, dict[str, str]] | Callable[..., dict[str, dict[str, str]]]]

    def __init__(self, **params: Any) -> None:
        self.params = params

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> Returned:
        """Computes output rows from input rows; called with at least one row.

        Args:
            batch: the input's columns and `_time`, the event time in microseconds since 1970.

        Returns:
            The columns of `output`, others are dropped; None for no rows. Without `_time` the rows get the largest
            `_time` of the batch. The job's `on_error` decides about an error, and the writes to tables of the failed
            call are undone; a part of the batch may then be passed again, without the rows at fault.
        """
        raise NotImplementedError(f"{type(self).__name__} has no on_batch")

    def on_watermark(self, watermark_us: int, state: State, ctx: Context) -> Returned:
        """Called after on_batch whenever the watermark has risen; at the end of the stream it is 2**63 - 1."""
        return None

    def on_timer(self, time_us: int, keys: list[Any], state: State, ctx: Context) -> Returned:
        """Called for timers set by `ctx.set_timer` that the watermark has reached: once for each time, in the order of
        times, after `on_batch` and before `on_watermark`.

        Rounding of times up, say to a second, keeps the number of calls low. Rows without `_time` get the time of the
        timers.

        Timers by the time of day are called last, in the first batch that was cut at their time or later; then
        `ctx.by_clock` is true, and rows without `_time` get the newest known event time.

        At the end of the stream every timer is called. A call for a time past the newest event time can set no timers
        any more, and a call by the time of day can set none by event time.

        Args:
            keys: the keys with a timer for this time, as they were set; times and dates in them are numbers.
        """
        raise NotImplementedError(f"{type(self).__name__} has no on_timer")


def has_timers(code: type[PythonOperator]) -> bool:
    return code.on_timer is not PythonOperator.on_timer


def load(reference: str, allow: Sequence[str] | None) -> type[PythonOperator]:
    """The class of `package.module:Class`.

    Args:
        allow: the permitted modules, including all modules below them; None: any.

    Raises:
        CodeUnavailable: the class cannot be loaded; the message has the reason.
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
