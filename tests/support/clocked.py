"""A user's operator that sets timers by the time of day."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from holdfast import Context, PythonOperator, State
from holdfast.services.kernel.codecs.fields import schema


class Reminder(PythonOperator):
    """A row for each key some time of day after its newest row, as long as no other one comes: with the number of its
    rows, the time that was asked for, how late the timer is and what chance gave.

    Args:
        key: column. after_ms: until the row. text: type of the key.
    """

    def __init__(self, key: str, after_ms: int, text: str = "string?") -> None:
        self.key, self.after, self.text = key, timedelta(milliseconds=after_ms), text

    def output(self, fields: dict[str, str]) -> dict[str, str]:
        return {"key": self.text, "rows": "int", "due": "timestamp", "late_us": "int", "lot": "int"}

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> None:
        counts, due = state.table("counts"), state.table("due")
        for key in batch[self.key]:
            counts.put(key, counts.get(key, 0) + 1)
            if (before := due.get(key)) is not None:
                ctx.cancel_timer(key, before, clock=True)
            ctx.set_timer(key, ctx.clock + self.after, clock=True)
            due.put(key, ctx.clock + self.after)

    def on_timer(self, time_us: int, keys: list[str | None], state: State, ctx: Context) -> pl.DataFrame:
        assert ctx.by_clock
        counts, due, rows = state.table("counts"), state.table("due"), []
        for key in keys:
            late = (ctx.clock - due.get(key)) // timedelta(microseconds=1)
            rows.append((key, counts.get(key), due.get(key), late, ctx.random.randrange(1_000)))
            due.delete(key)
        return pl.DataFrame(rows, schema({**self.output({}), "key": "string?"}), orient="row")
