"""A job run to its end in this process, and its rows beside those of one piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import polars as pl
from polars.testing import assert_frame_equal

from holdfast.services.client.local_run import Finished, LocalRun, complete
from holdfast.services.planning.loader import load

BLOCK = 10_000
RELATIVE = 1e-9
"""How far floats may differ: sums of the same numbers in another order."""
_TEXT = "%Y-%m-%dT%H:%M:%S%.6fZ"
_decode = msgspec.json.Decoder(list[dict[str, object]]).decode


def finish(job: str, inputs: Mapping[str, pl.DataFrame], allow: Sequence[str] = ()) -> Finished:
    """Runs a job file's text over frames, a record a row in their order."""
    feeds = {name: _blocks(frame) for name, frame in inputs.items()}
    return LocalRun(complete(load(job, "golden.yaml")), feeds, list(allow)).run()


def delivered(finished: Finished, query: str, like: pl.DataFrame) -> pl.DataFrame:
    """A query's rows in the order of its topic, of the columns and types of `like`, with times as texts."""
    rows = _decode(b"[" + b",".join(finished.rows[query]) + b"]")
    assert all(list(row) == like.columns for row in rows), f"the columns are {like.columns}"
    return pl.DataFrame(rows, schema=like.schema, strict=True, orient="row")


def assert_rows(finished: Finished, query: str, expected: pl.DataFrame, in_order: bool = False) -> None:
    """The query delivered exactly these rows: each as often, floats to 1e-9; in any order, or in this one."""
    assert expected.height > 0, "nothing is compared"
    assert_same(delivered(finished, query, expected), expected, in_order)


def assert_newest(finished: Finished, query: str, expected: pl.DataFrame, key: Sequence[str]) -> None:
    """Of the rows of each key, the one delivered last is the expected one."""
    assert expected.height > 0, "nothing is compared"
    rows = delivered(finished, query, expected)
    assert_same(rows.unique(key, keep="last", maintain_order=True), expected)


def assert_same(got: pl.DataFrame, expected: pl.DataFrame, in_order: bool = False) -> None:
    exact = [name for name, kind in expected.schema.items() if not kind.is_float()]
    order = [*exact, *(name for name in expected.columns if name not in exact)]
    left, right = (frame if in_order else frame.sort(order, nulls_last=True) for frame in (got, expected))
    assert_frame_equal(left, right, check_exact=False, rel_tol=RELATIVE, abs_tol=0.0)


def late(finished: Finished) -> int:
    """Rows that came too late for some window or join."""
    return sum(progress.late for progress in finished.progress.values())


# -- what the one-piece queries share ---------------------------------------------------------------------------------


def timed(frame: pl.DataFrame) -> pl.DataFrame:
    """With `_us`: the column `at` in microseconds since 1970."""
    text = pl.col("at").str.replace("T", " ").str.strip_suffix("Z")
    return frame.with_columns(_us=text.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us").dt.epoch("us"))


def in_windows(frame: pl.DataFrame, size_s: int, slide_s: int | None = None) -> pl.DataFrame:
    """Each row once for every window that holds it, with its window_start and window_end as texts."""
    size, slide = size_s * 1_000_000, (slide_s or size_s) * 1_000_000
    newest = pl.col("_us") // slide * slide
    starts = pl.concat_list([newest - ago * slide for ago in range(-(-size // slide))])
    windows = timed(frame).with_columns(_start=starts).explode("_start").filter(pl.col("_us") < pl.col("_start") + size)
    return windows.with_columns(
        window_start=pl.from_epoch("_start", "us").dt.strftime(_TEXT),
        window_end=pl.from_epoch(pl.col("_start") + size, "us").dt.strftime(_TEXT),
    )


def utc(column: str) -> pl.Expr:
    """A time of the recordings as a sink writes it."""
    return pl.col(column).str.replace(" ", "T").str.replace("Z?$", ".000000Z")


def _blocks(frame: pl.DataFrame) -> list[list[bytes]]:
    lines = frame.write_ndjson().encode().splitlines()
    return [lines[start : start + BLOCK] for start in range(0, len(lines), BLOCK)]
