"""The checkpoint directories of a query: one per epoch, so that a zombie writes where no query reads.

Source: PROTOCOL 12. The layout is Spark's own: `offsets/<batch>` is written before a batch runs, `commits/<batch>`
behind it, and files of `state` are never changed once they have their name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.spark.core.taking_over import Takeover

FAR_WATERMARK_MS = 253_402_300_799_000
"""The end of the year 9999: everything that Spark holds is behind it, and in microseconds it still fits."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Spark's note before it ran a batch. stop: by topic and partition. watermark_us: NO_WATERMARK before any."""

    stop: dict[str, dict[int, int]]
    watermark_us: int
    time_ms: int


class Checkpoints:
    """Checkpoints of one operator. root: a directory that every driver of the cluster sees."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def directory(self, epoch: int) -> Path:
        return self._root / str(epoch)

    def done(self, epoch: int) -> list[int]:
        """Batches that Spark has noted as done."""
        return sorted(_batches(self.directory(epoch) / "commits"))

    def prepare(self, epoch: int, start: Takeover) -> Path:
        """The directory of the epoch, made from what is to be taken over; one that is there already stays as it is.

        Raises:
            StateCorrupted: the former driver's directory is not there, or lacks what its commits promise.
        """
        target = self.directory(epoch)
        if target.exists():
            return target
        self._root.mkdir(parents=True, exist_ok=True)
        staging = self._root / f".{epoch}-{os.getpid()}"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        if start.former is not None:
            self._copy(self.directory(start.former), staging, start)
            self._rename(staging, epoch)
        staging.rename(target)
        self.forget_before(epoch if start.former is None else start.former)
        return target

    def _copy(self, former: Path, target: Path, start: Takeover) -> None:
        if not (former / "offsets" / str(start.planned)).exists():
            raise StateCorrupted(f"the checkpoint in {former} does not hold batch {start.planned}, which is committed")
        limits = {"offsets": start.planned, "commits": start.done}
        for path in sorted(former.rglob("*")):
            inside = path.relative_to(former)
            if path.is_dir() or not _kept(inside, limits):
                continue
            (target / inside.parent).mkdir(parents=True, exist_ok=True)
            _link(path, target / inside)

    def _rename(self, staging: Path, epoch: int) -> None:
        """Operators with Spark's newer kind of state (`transformWithState`) note where their schemas lie, in full."""
        root = self._root.absolute()
        former = re.compile(rf"{re.escape(str(root))}/\d+/")
        for path in staging.glob("state/*/_metadata/v2/[0-9]*"):
            note = former.sub(lambda _: f"{root}/{epoch}/", path.read_text())
            path.unlink()  # the former driver's has the same file
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            path.write_text(note)

    def forget_before(self, epoch: int) -> None:
        """Directories of earlier epochs."""
        for path in self._root.glob("[0-9]*"):
            if int(path.name) < epoch:
                shutil.rmtree(path, ignore_errors=True)


def planned(directory: Path, batch: int) -> Planned:
    """Raises StateCorrupted when Spark has noted nothing of the batch."""
    head, sources = _read(directory, batch)
    stop: dict[str, dict[int, int]] = {}
    for source in sources:
        for topic, offsets in source.items():
            if not isinstance(offsets, dict):
                continue  # of a source of files
            known = stop.setdefault(topic, {})
            for partition, offset in offsets.items():
                known[int(partition)] = max(int(offset), known.get(int(partition), 0))
    watermark_ms = int(head.get("batchWatermarkMs") or 0)
    return Planned(stop, watermark_ms * 1000 if watermark_ms else NO_WATERMARK, int(head["batchTimestampMs"]))


def last_file(directory: Path, batch: int) -> int:
    """The last file, in the order in which they came, that a batch over one source of files has taken; -1: none."""
    return max((int(source.get("logOffset", -1)) for source in _read(directory, batch)[1]), default=-1)


def plan_last_batch(directory: Path, batch: int) -> None:
    """Notes a batch without input whose watermark is behind everything: what Spark holds comes out in it.

    Args:
        batch: the one behind the last that is done.
    """
    path = directory / "offsets" / str(batch - 1)
    version, head, *sources = path.read_text().splitlines()
    note = json.loads(head) | {"batchWatermarkMs": FAR_WATERMARK_MS}
    target = path.with_name(str(batch))
    target.with_name(f".{batch}.crc").unlink(missing_ok=True)
    target.write_text("\n".join([version, json.dumps(note), *sources]))


def _read(directory: Path, batch: int) -> tuple[dict[str, int], list[dict[str, Any]]]:
    path = directory / "offsets" / str(batch)
    try:
        _version, head, *sources = path.read_text().splitlines()
    except OSError as error:
        raise StateCorrupted(f"Spark has not noted batch {batch} in {directory}: {error.strerror}") from None
    return json.loads(head), [json.loads(source) for source in sources if source.startswith("{")]


def _batches(folder: Path) -> Iterator[int]:
    for path in folder.glob("[0-9]*"):
        if path.name.isdigit():
            yield int(path.name)


def _kept(inside: Path, limits: dict[str, int]) -> bool:
    limit, name = limits.get(inside.parts[0]), inside.name.strip(".").removesuffix(".crc")
    return limit is None or not name.isdigit() or int(name) <= limit


def _link(path: Path, target: Path) -> None:
    """Spark replaces files and never writes into one that is there: a second name is as good as a copy."""
    try:
        os.link(path, target)
    except FileNotFoundError:  # a driver that still runs cleans up behind itself
        return
    except OSError:
        shutil.copyfile(path, target)
