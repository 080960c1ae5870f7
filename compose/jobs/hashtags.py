"""The operators of hashtags.yaml: a row for each hashtag of a post, and the newest counts of several windows."""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from holdfast import Context, PythonOperator, State


class Parser(PythonOperator):
    output: ClassVar = {"hashtag": "string"}

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        return batch.select("_time", hashtag="hashtags").explode("hashtag").drop_nulls("hashtag")


class Newest(PythonOperator):
    """Of each hashtag the count in the newest window of each length, in hours, and how many such counts there were.

    Rows of a hashtag always come to the same task, as the windows are counted by it.
    """

    output: ClassVar = {"hashtag": "string", "hours": "int", "n": "int", "windows": "int"}

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        length = (pl.col("window_end") - pl.col("window_start")).dt.total_hours()
        newest = batch.with_columns(hours=length).sort("hashtag", "hours", "window_start", "n")
        newest = newest.group_by("hashtag", "hours", maintain_order=True).last()
        known = state.table("windows")
        keys = list(zip(newest["hashtag"], newest["hours"], strict=True))
        windows = [before + 1 for before in known.get_many(keys, 0)]
        known.put_many(zip(keys, windows, strict=True))
        return newest.select("hashtag", "hours", "n").with_columns(windows=pl.Series(windows, dtype=pl.Int64))
