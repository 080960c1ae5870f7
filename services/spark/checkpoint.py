"""The checkpoint directories of a query: one for each epoch, so that a zombie writes where no query reads.

Source: PROTOCOL 12. The layout is Spark's own: `offsets/<batch>` is written before a batch runs, `commits/<batch>`
after it, and files of `state` never change once they have their name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.spark.core.checkpoint_files import hidden, kept
from holdfast.services.spark.core.sent_files import Mark
from holdfast.services.spark.core.taking_over import Takeover

FAR_WATERMARK_MS = 253_402_300_799_000
"""The end of the year 9999: every row that Spark holds is earlier, and the value fits into microseconds."""

_WITH_PATHS = "state/*/_metadata/v2/[0-9]*"
"""Notes of Spark that hold full paths."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Spark's note before a batch.

    Attributes:
        stop: end offsets of the batch, by topic and partition.
        watermark_us: watermark in microseconds; NO_WATERMARK before any.
        time_ms: time of the batch.
    """

    stop: dict[str, dict[int, int]]
    watermark_us: int
    time_ms: int


class Checkpoints:
    """The checkpoints of one operator. `root` is a directory shared by all drivers of the cluster."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def directory(self, epoch: int) -> Path:
        return self._root / str(epoch)

    def done(self, epoch: int) -> list[int]:
        """The batches that Spark has noted as done."""
        return sorted(_batches(self.directory(epoch) / "commits"))

    def prepare(self, epoch: int, start: Takeover) -> Path:
        """Returns the directory of the epoch, made from the former one; an existing directory is left unchanged.

        Raises:
            StateCorrupted: the former driver's directory is missing, or lacks a committed batch.
        """
        target = self.directory(epoch)
        if target.exists():
            return target
        staging = self._staging(epoch)
        if start.former is not None:
            self._copy(self.directory(start.former), staging, start)
            self._rename(staging, epoch, self.root)
        staging.rename(target)
        self.forget_before(epoch if start.former is None else start.former)
        return target

    def _copy(self, former: Path, target: Path, start: Takeover) -> None:
        if not self.holds(start):
            raise StateCorrupted(
                f"the checkpoint in {former} does not hold batch {start.planned}, which is committed: drivers that do "
                "not share HOLDFAST_SPARK_DIR need HOLDFAST_SPARK_CHECKPOINTS=kafka"
            )
        for path in sorted(former.rglob("*")):
            inside = path.relative_to(former)
            if path.is_dir() or not kept(_checked(inside), start.planned, start.done):
                continue
            (target / inside.parent).mkdir(parents=True, exist_ok=True)
            _link(path, target / inside)

    def rebuild(self, epoch: int, files: Mapping[str, Path], root: str) -> Path:
        """Returns the directory of the epoch, made of these files; `root` is that of the driver that wrote them."""
        target, staging = self.directory(epoch), self._staging(epoch)
        for path, file in files.items():
            (staging / path).parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy(file, staging / path)
        self._rename(staging, epoch, root)
        shutil.rmtree(target, ignore_errors=True)
        staging.rename(target)
        self.forget_before(epoch)
        return target

    def rewritten(self, directory: Path) -> set[str]:
        """Paths of files that `rebuild` has not taken over as they were."""
        return {path.relative_to(directory).as_posix() for path in directory.glob(_WITH_PATHS)}

    def holds(self, start: Takeover) -> bool:
        """True if the former driver's directory is here, with the last valid commit."""
        return start.former is not None and (self.directory(start.former) / "offsets" / str(start.planned)).exists()

    @property
    def root(self) -> str:
        """The directory of all epochs, as notes of Spark name it."""
        return str(self._root.absolute())

    def _staging(self, epoch: int) -> Path:
        self._root.mkdir(parents=True, exist_ok=True)
        staging = self._root / f".{epoch}-{os.getpid()}"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        return staging

    def _rename(self, staging: Path, epoch: int, root: str) -> None:
        """Adapts paths in notes: operators with Spark's newer kind of state (`transformWithState`) note the full path
        of their schemas."""
        former = re.compile(rf"{re.escape(root)}/\d+/")
        for path in staging.glob(_WITH_PATHS):
            note = former.sub(lambda _: f"{self.root}/{epoch}/", path.read_text())
            path.unlink()  # the former driver's has the same file
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            path.write_text(note)

    def forget_before(self, epoch: int) -> None:
        """Deletes directories of earlier epochs."""
        for path in self._root.glob("[0-9]*"):
            if int(path.name) < epoch:
                shutil.rmtree(path, ignore_errors=True)


def marks(directory: Path) -> dict[str, Mark]:
    """The files of a checkpoint, by path. A folder is listed before the folders in it: Spark writes the tables of a
    snapshot into one of these before the snapshot."""
    found: dict[str, Mark] = {}
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = Path(folder).relative_to(directory)
        for name in files:
            path = (inside / name).as_posix()
            with suppress(FileNotFoundError):
                if not hidden(path):
                    stat = os.stat(os.path.join(folder, name))
                    found[path] = Mark(stat.st_size, stat.st_mtime_ns, stat.st_ino)
    return found


def planned(directory: Path, batch: int) -> Planned:
    """Spark's note of the batch. Raises StateCorrupted if there is none."""
    head, sources = _read(directory, batch)
    stop: dict[str, dict[int, int]] = {}
    for source in sources:
        for topic, offsets in source.items():
            if not isinstance(offsets, dict):
                continue  # the source reads files
            known = stop.setdefault(topic, {})
            for partition, offset in offsets.items():
                known[int(partition)] = max(int(offset), known.get(int(partition), 0))
    watermark_ms = int(head.get("batchWatermarkMs") or 0)
    return Planned(stop, watermark_ms * 1000 if watermark_ms else NO_WATERMARK, int(head["batchTimestampMs"]))


def last_file(directory: Path, batch: int) -> int:
    """The last file that a batch over one source of files has read, by order of arrival; -1 for none."""
    return max((int(source.get("logOffset", -1)) for source in _read(directory, batch)[1]), default=-1)


def plan_last_batch(directory: Path, batch: int) -> None:
    """Notes a batch without input and with a watermark behind all rows, in which Spark returns all rows that it holds.

    Args:
        batch: the batch after the last one done.
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


def _checked(inside: Path) -> str:
    """The path of a file; for a checksum, of the file that it belongs to."""
    if inside.suffix != ".crc":
        return inside.as_posix()
    return inside.with_name(inside.name.removeprefix(".").removesuffix(".crc")).as_posix()


def _link(path: Path, target: Path) -> None:
    """Links a file under a second name. A link is as good as a copy, because Spark replaces files and never changes
    them."""
    with suppress(FileNotFoundError):  # a driver that still runs cleans up behind itself
        _link_or_copy(path, target)


def _link_or_copy(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(path, target)
