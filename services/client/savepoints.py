"""Savepoints: a job that is held is written to a directory, and a directory to a cluster, for a job to begin with.

Source: JOBS "holdfast savepoint".
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from msgspec import structs

from holdfast.schemas.checkpoints import Entry
from holdfast.schemas.cuts import END_WATERMARK
from holdfast.schemas.plans import Plan, UnitPlan
from holdfast.schemas.savepoints import FIELD, FORMAT, Piece, Savepoint, Start, Task
from holdfast.services.client.current import await_format
from holdfast.services.client.hold import Held, Hold
from holdfast.services.client.places import StorePlace
from holdfast.services.client.savepoint_files import directory, read_manifest, read_pieces
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.log.late.savepoints import upload
from holdfast.services.view.door import Door
from holdfast.services.worker.checkpoint.restore import Rebuilt

PIECE_ENTRIES, PIECE_BYTES = 2_000, 512 * 1024


@dataclass(frozen=True, slots=True)
class Saved:
    """A savepoint that was written.

    silence_s: seconds during which the job read nothing; None: it is still paused.
    """

    manifest: Savepoint
    entries: int
    bytes: int
    silence_s: float | None


def save(door: Door, plan: Plan, path: Path | StorePlace, timeout_s: float, holding: Hold | None = None) -> Saved:
    """Pauses the job, writes it down, and resumes it, unless it was paused before.

    Raises CommandFailed; then there is no directory, and the job continues.
    """
    written = directory(path)
    held, hold = None, holding
    try:
        hold = hold or Hold(door, plan)
        held = hold.hold(timeout_s)
        tasks = {
            name: written.state(name, watermark, pieces)
            for unit, found in hold.states(held.batch)
            for name, watermark, pieces in tasks_of(unit, found)
        }
        manifest = manifest_of(door, plan, held, tasks, new_id())
        written.finish(manifest)
    finally:
        written.abandon()
        if hold is not None:
            hold.release()
    silence_s = None if held.was_paused else time.monotonic() - held.paused_s
    return Saved(manifest, sum(t.entries for t in tasks.values()), sum(t.bytes for t in tasks.values()), silence_s)


def new_id() -> str:
    """A unique name."""
    return uuid.uuid4().hex


def manifest_of(door: Door, plan: Plan, held: Held, tasks: dict[str, Task], id: str) -> Savepoint:
    """The manifest of a job that is held."""
    return Savepoint(
        format=FORMAT,
        id=id,
        release=version("holdfast-streams"),
        cluster=door.topics.prefix,
        job=plan.job,
        generation=plan.generation,
        batch=held.batch,
        time_ms=int(time.time() * 1000),
        paused=held.paused,
        plan=structs.replace(plan, seed=None),
        sources=held.cuts.tasks,
        tasks=tasks,
    )


def tasks_of(unit: UnitPlan, found: Rebuilt) -> Iterator[tuple[str, int, Iterator[Piece]]]:
    """Each task of a unit, the watermark of its inputs, and its state. Raises CommandFailed for a unit at its end."""
    assert found.marker is not None
    for operator in unit.operators:
        name = task_name(operator, unit.index)
        watermark = found.marker.watermarks[name]
        if watermark == END_WATERMARK:
            raise CommandFailed(f"{unit.name} has come to the end of its input: the job ends")
        yield name, watermark, _pieces(name, found)


def _pieces(task: str, found: Rebuilt) -> Iterator[Piece]:
    for number, name in enumerate(found.tables):
        owner, _, table = name.partition("/")
        if owner == task:
            yield from pieces_of_table(task, table, found.image.scan(number.to_bytes(2, "big")))


def pieces_of_table(task: str, table: str, found: Iterable[Entry], adds: int = 1) -> Iterator[Piece]:
    """Pieces of a table.

    found: entries with the number of the table in front of each key.
    """
    entries, size = list[Entry](), 0
    for key, value in found:
        entries.append((key[2:], value))
        size += len(key) + len(value or b"")
        if len(entries) >= PIECE_ENTRIES or size >= PIECE_BYTES:
            yield Piece(task, table, entries, adds)
            entries, size = [], 0
    if entries:
        yield Piece(task, table, entries, adds)


def begin_with(door: Door, raw: dict[str, Any], path: Path | StorePlace, how: Start) -> Start:
    """Uploads a savepoint to the cluster, and adds the field to the job file that names it; the cluster decides.

    how: parts of the savepoint that are left out, and names of the other parts in the job file.
    """
    manifest = read_manifest(path)
    await_format(door)
    topic = upload(door.log, door.topics, new_id(), read_pieces(path, manifest.tasks), manifest)
    start = structs.replace(how, topic=topic, id=manifest.id)
    raw[FIELD] = structs.asdict(start)
    return start
