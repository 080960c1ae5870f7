"""The command `watch`: the status of a job that stays on the screen."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import DataDir, JobName, Json, KafkaAt
from holdfast.services.cli.terminal import live, print_json, say
from holdfast.services.kernel.errors import FAILED

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.services.view.door import Door
    from holdfast.services.view.lines import JobStatus


def watch(
    job: JobName,
    every_s: Annotated[float, typer.Option("--every", min=0.5, max=3600.0, help="Seconds between two looks.")] = 2.0,
    for_s: Annotated[
        float | None, typer.Option("--for", min=0.0, help="Seconds after which it ends.", show_default=False)
    ] = None,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Keep the status of a job on the screen, until Ctrl-C or until the job has ended.

    Where no terminal reads the output, a line comes for each change: of the job's state, of a unit's worker or state,
    of its protection; with --json the whole status. Exits with 0, with 1 if the job fails, and with 130 after Ctrl-C.
    """
    from holdfast.services.cli.whereabouts import connected

    with connected(data_dir, kafka) as door:
        state = follow(lambda: look(door, job), every_s, for_s, as_json=as_json)
    if state == "failed":
        raise typer.Exit(FAILED)


def look(door: Door, job: str) -> JobStatus:
    """The present status of a job. Raises CommandFailed if there is no such job."""
    from holdfast.services.view.reader import named_job, read_all, read_progress

    view = read_all(door)
    line = named_job(view, job)
    plan = view.plan(line.generation)
    if plan is not None:
        read_progress(door, view, plan)
    return view.status(line, int(time.time() * 1000))


def follow(
    look: Callable[[], JobStatus],
    every_s: float,
    for_s: float | None,
    *,
    as_json: bool = False,
    clock: Callable[[], float] = time.monotonic,
    rest: Callable[[float], None] = time.sleep,
) -> str:
    """Shows each look until the job is over, or the time is; returns the job's last state."""
    from holdfast.services.view.cluster import OVER

    until_s = None if for_s is None else clock() + for_s
    show = _Screen() if sys.stdout.isatty() and not as_json else _Lines(as_json)
    with show:
        while True:
            found = look()
            show(found)
            left_s = every_s if until_s is None else min(every_s, until_s - clock())
            if found.state in (*OVER, "failed") or left_s <= 0:
                return found.state
            rest(left_s)


class _Screen:
    """Draws the status in place of the former one."""

    def __enter__(self) -> None:
        self._live = live()
        self._draw = self._live.__enter__()

    def __exit__(self, *error: object) -> None:
        self._live.__exit__(*error)  # type: ignore[arg-type]

    def __call__(self, found: JobStatus) -> None:
        from holdfast.services.cli.status import status_parts

        self._draw([*status_parts(found), f"{time.strftime('%H:%M:%S')}, Ctrl-C ends it"])


class _Lines:
    """Prints the changes, one line each."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._last: object = None

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, found: JobStatus) -> None:
        changing = (
            found.generation, found.state, found.error, found.unprotected,
            [(unit.unit, unit.worker, unit.state) for unit in found.units],
            [(query.query, found.state_of(query)) for query in found.queries],
        )  # fmt: skip
        if changing != self._last:
            self._last = changing
            print_json(found) if self._as_json else say(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {line_of(found)}")
            sys.stdout.flush()


def line_of(found: JobStatus) -> str:
    """The status as one line."""
    from holdfast.services.kernel.plurals import plural
    from holdfast.services.view.protection import said

    up = sum(unit.state in ("running", "ended") for unit in found.units)
    others = [
        f"{unit.unit} {unit.state} on {unit.worker or 'no worker'}" for unit in found.units if unit.state != "running"
    ]
    parts = [
        f"{found.job} is {found.state}",
        f"{up} of {plural(len(found.units), 'unit')} up",
        *others,
        *[
            f"query {query.query} {'catches up' if state == 'catching up' else f'is {state}'}"
            for query in found.queries
            if (state := found.state_of(query)) != "available"
        ],
        *said(found.unprotected, len(found.units)),
        f"{plural(found.records, 'record')} taken in, {found.dead:,} dead, {found.lost:,} lost",
        *([found.error] if found.error else []),
    ]
    return "; ".join(parts)
