"""User code for processes of its own: it computes, or does to its process whatever its rows ask for."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from holdfast import Context, PythonOperator, State
from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.worker.isolated.channel import HEADER, MAGIC

FIELDS = {"key": "string", "n": "int?"}


class Tally(PythonOperator):
    """State of every kind, chance and batch time; raises at negative numbers, after it has written."""

    output = {"key": "string?", "count": "int", "chance": "float", "now": "timestamp"}  # noqa: RUF012 - as users write it

    def __init__(self, raises_late: bool = False) -> None:
        self._raises_late = raises_late

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        counts, odd = state.table("counts"), state.table("odd")
        found = []
        for key, n, at in batch.select("key", "n", "_time").iter_rows():
            ctx.set_timer(key, at + 1)
            state.value("newest", "int", ttl_s=0.00002).put(key, at, at=at)
            count = counts.get(key, 0) + 1
            counts.put(key, count)
            if n is None:
                counts.delete(key)
                odd.delete((key, 1))
            elif n % 2:
                odd.put((key, n), {"count": count, "at": ctx.batch})
            if n is not None and n < 0:
                raise ValueError(f"{n} is negative")
            found.append(count)
        chances = [ctx.random.random() for _ in found]
        return batch.select("key", "_time").with_columns(
            count=pl.Series(found, dtype=pl.Int64), chance=pl.Series(chances), now=pl.lit(ctx.now)
        )

    def on_timer(self, time_us: int, keys: list[str | None], state: State, ctx: Context) -> pl.DataFrame:
        fired = [(key, -1, ctx.random.random(), ctx.now) for key in keys]
        return pl.DataFrame(fired, schema(self.output), orient="row")

    def on_watermark(self, watermark_us: int, state: State, ctx: Context) -> pl.DataFrame:
        odd, found = state.table("odd"), []
        for (key, n), seen in odd.items():
            if seen["at"] < ctx.batch - 1:
                odd.delete((key, n))
                found.append((key, seen["count"], ctx.random.random(), ctx.now))
        state.table("marks").put("watermark", watermark_us)
        if self._raises_late and found:
            raise ValueError("too late")
        return pl.DataFrame(found, schema(self.output), orient="row")


class Waits(PythonOperator):
    """Each key, ten microseconds of the day after its row came."""

    output = {"key": "string?"}  # noqa: RUF012

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> None:
        for key in batch["key"]:
            ctx.set_timer(key, ctx.clock + timedelta(microseconds=10), clock=True)

    def on_timer(self, time_us: int, keys: list[str | None], state: State, ctx: Context) -> pl.DataFrame:
        return pl.DataFrame({"key": keys}, {"key": pl.String})


class Obeys(PythonOperator):
    """Does what the text in `key` says, to its own process. once: a file; what it does then, it does not do again."""

    output = {"key": "string", "n": "int?", "note": "string?"}  # noqa: RUF012

    def __init__(self, once: str = "", loading: str = "") -> None:
        self._once = once
        if loading and self._first():
            _DEEDS[loading]()

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        state.table("seen").put_many({key: ctx.batch for key in batch["key"]})
        notes = [_DEEDS[key]() if key in _DEEDS and self._first() else None for key in batch["key"]]
        return batch.with_columns(note=pl.Series(notes, dtype=pl.String))

    def _first(self) -> bool:
        if not self._once:
            return True
        try:
            Path(self._once).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Big(PythonOperator):
    """A table of more than one page, read as a whole."""

    output = {"key": "string", "entries": "int", "bytes": "int"}  # noqa: RUF012

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        table = state.table("big")
        table.put_many({f"{key}-{index}": b"x" * 100_000 for key in batch["key"] for index in range(50)})
        held = list(table.items())
        return batch.select("key", "_time", entries=len(held), bytes=sum(len(value) for _, value in held))


class Declares(PythonOperator):
    """Puts out what its params say, or raises when it is asked."""

    def __init__(self, columns: dict[str, str] | None = None) -> None:
        if columns is None:
            raise LookupError("no columns")
        self._columns = columns

    def output(self, fields: dict[str, str]) -> dict[str, str]:
        return dict(self._columns)


def _exits() -> None:
    os._exit(3)


def _leaves() -> None:
    raise SystemExit(4)


def _leaves_a_child_behind() -> None:
    """Leaves a child behind, which holds all that this process has open."""
    if os.fork():
        os._exit(5)
    time.sleep(20)
    os._exit(0)


def _is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _segfaults() -> None:
    ctypes.string_at(0)


def _hangs() -> None:
    threading.Event().wait()


def _says_so_and_hangs() -> None:
    print("hangs", flush=True)
    _hangs()


def _fills() -> None:
    kept = []
    while True:
        kept.append(bytearray(10_000_000))
        time.sleep(0.01)


def _socket() -> int:
    return int(sys.argv[3])


def _babbles() -> None:
    os.write(_socket(), b"x" * HEADER.size)
    _hangs()


def _stops_midway() -> None:
    os.write(_socket(), b"hold")
    _hangs()


def _lies() -> None:
    """A message of more bytes than its memory has."""
    os.write(_socket(), HEADER.pack(MAGIC, 1 << 40, 10))
    _hangs()


def _speaks_nonsense() -> None:
    os.write(_socket(), HEADER.pack(MAGIC, 0, 2))
    _hangs()


def _files() -> str:
    return " ".join(sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _there(fd)))


def _there(descriptor: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{descriptor}")


def _environment() -> str:
    ours = {name: value for name, value in os.environ.items() if name.startswith("HOLDFAST_")}
    given = os.environ["PYTHONHASHSEED"], os.environ["POLARS_MAX_THREADS"]
    return f"{' '.join(given)} {pl.thread_pool_size()} {hash('a')} {ours}"


_DEEDS: dict[str, Any] = {
    "exits": _exits,
    "leaves": _leaves,
    "leaves a child behind": _leaves_a_child_behind,
    "is killed": _is_killed,
    "segfaults": _segfaults,
    "hangs": _hangs,
    "says so and hangs": _says_so_and_hangs,
    "fills": _fills,
    "babbles": _babbles,
    "stops midway": _stops_midway,
    "lies": _lies,
    "speaks nonsense": _speaks_nonsense,
    "pid": lambda: str(os.getpid()),
    "files": _files,
    "environment": _environment,
}
