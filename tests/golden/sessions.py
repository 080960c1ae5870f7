"""A user's operators, such as a user would write them: visits to a web server, and gaps between packets."""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from holdfast import Context, PythonOperator, State

_SECOND_US = 1_000_000
Visit = tuple[str, int, int, int]


class Visits(PythonOperator):
    """Requests of a host with no more than `gap_s` between two: one row a visit, when it is over."""

    output: ClassVar[dict[str, str]] = {"host": "string", "began_us": "int", "lasted_us": "int", "requests": "int"}

    def __init__(self, gap_s: int) -> None:
        self.gap_us = gap_s * _SECOND_US

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        table = state.table("visits")
        hosts = batch["host"].unique(maintain_order=True).to_list()
        visits = dict(zip(hosts, table.get_many(hosts), strict=True))
        over: list[Visit] = []
        for host, time in batch.select("host", "_time").iter_rows():
            began, last, count = visits[host] or (time, time, 0)
            if time - last > self.gap_us:
                over.append((host, began, last - began, count))
                began, count = time, 0
            visits[host] = (began, time, count + 1)
        table.put_many(visits)
        return self._rows(over)

    def on_watermark(self, watermark_us: int, state: State, ctx: Context) -> pl.DataFrame:
        table = state.table("visits")
        over = [(host, *visit) for host, visit in table.items() if visit[1] + self.gap_us < watermark_us]
        table.delete_many(host for host, *_ in over)
        return self._rows([(host, began, last - began, count) for host, began, last, count in over])

    def _rows(self, visits: list[Visit]) -> pl.DataFrame:
        kinds = {"host": pl.String, "began_us": pl.Int64, "lasted_us": pl.Int64, "requests": pl.Int64}
        return pl.DataFrame(visits, schema=kinds, orient="row")


class Gaps(PythonOperator):
    """Of each packet: which of its source it is, and how long after the one before it, in order of arrival."""

    output: ClassVar[dict[str, str]] = {"id": "int", "src": "int", "nth": "int", "after_us": "int?"}

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        table = state.table("last")
        sources = batch["src"].unique(maintain_order=True).to_list()
        seen = dict(zip(sources, table.get_many(sources, default=(0, None)), strict=True))
        rows = []
        for identity, source, time in batch.select("id", "src", "_time").iter_rows():
            nth, last = seen[source]
            seen[source] = (nth + 1, time)
            rows.append((identity, source, nth + 1, None if last is None else time - last))
        table.put_many(seen)
        return pl.DataFrame(rows, schema=dict.fromkeys(self.output, pl.Int64), orient="row")


class Quiet(PythonOperator):
    """A row for each packet behind which its source sends nothing for `after_s`, by timers; and every `every_s` a row
    with how many packets came so far, as long as packets come.
    """

    output: ClassVar[dict[str, str]] = {"src": "int?", "packets": "int", "at_us": "int", "chance": "float"}

    def __init__(self, after_s: int, every_s: int) -> None:
        self.after_us, self.every_us = after_s * _SECOND_US, every_s * _SECOND_US

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> None:
        times = state.table("times")
        for source, time in batch.select("src", "_time").iter_rows():
            times.put(source, sorted([*times.get(source, []), time]))
            ctx.set_timer(source, time + self.after_us)
        ctx.set_timer(None, (min(batch["_time"]) // self.every_us + 1) * self.every_us)

    def on_timer(self, time_us: int, keys: list[int | None], state: State, ctx: Context) -> pl.DataFrame:
        times, rows = state.table("times"), list[tuple[int | None, int, int]]()
        for source in keys:
            if source is None:
                ctx.set_timer(None, time_us + self.every_us)
                rows.append((None, sum(time < time_us for _, held in times.items() for time in held), time_us))
            elif not any(time_us - self.after_us < time < time_us for time in times.get(source)):
                packets = sum(time < time_us for time in times.get(source))
                rows.append((source, packets, time_us))
        timed = [(*row, ctx.random.random()) for row in rows]
        kinds = {"src": pl.Int64, "packets": pl.Int64, "at_us": pl.Int64, "chance": pl.Float64}
        return pl.DataFrame(timed, schema=kinds, orient="row")


class Parted(PythonOperator):
    """Orders by their amount, the large ones with a place; a row for each batch of time says how many there were."""

    outputs: ClassVar[dict[str, dict[str, str]]] = {
        "small": {"shop": "string?", "amount": "int"},
        "large": {"shop": "string?", "amount": "int", "nth": "int"},
        "seen": {"orders": "int"},
    }

    def __init__(self, least: int) -> None:
        self.least = least

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> dict[str, pl.DataFrame]:
        table = state.table("seen")
        before, large = table.get("large", 0), batch.filter(pl.col("amount") >= self.least)
        table.put_many({"large": before + large.height, "all": table.get("all", 0) + batch.height})
        places = pl.int_range(before + 1, before + large.height + 1, eager=True)
        return {"large": large.with_columns(nth=places), "small": batch.filter(pl.col("amount") < self.least)}

    def on_watermark(self, watermark_us: int, state: State, ctx: Context) -> dict[str, pl.DataFrame]:
        return {"seen": pl.DataFrame({"orders": [state.table("seen").get("all", 0)]})}
