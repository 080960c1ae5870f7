"""A worker that dies at a chosen record: `python -m tests.support.doomed_worker` in place of a worker.

It does what a worker does, with small parts and frequent trims, and looks at everything it hands to its Kafka client.
In the directory DOOM_DIR the file `armed` holds a `Doom`; the first process that reaches it renames the file to `fired`
and kills itself, so the process that replaces it lives; or it freezes there, and is a zombie once it is woken.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import msgspec
from confluent_kafka import Producer

from holdfast.schemas import checkpoints, progress
from holdfast.schemas.checkpoints import Anchor, Part
from holdfast.schemas.frames import unpack
from holdfast.schemas.topics import Partition
from holdfast.services.log import door
from holdfast.services.log.kafka import client as kafka_client
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.worker.checkpoint import parts
from holdfast.services.worker.process import main as worker
from holdfast.services.worker.unit.checkpoints import trimmer
from holdfast.services.worker.unit.outputs import outputs

POINTS: Mapping[str, str] = {
    "cut": "proposal of a cut",
    "frame": "a frame in one piece",
    "frame-part": "one of several parts of a frame",
    "delta": "delta part of a checkpoint run",
    "slice": "sweep part of a checkpoint run",
    "marker": "end of a checkpoint run",
    "anchor": "record before the trim of a checkpoint log",
    "ack": "progress with a new acknowledged batch",
    "progress": "any other progress",
    "start": "taking over a transactional id",
    "begin": "begin of a transaction",
    "row": "sink row in a transaction",
    "dead-letter": "dead letter in a transaction",
    "position": "delivered position in a transaction",
    "commit": "commit of a transaction",
    "trim-data": "DeleteRecords of frames",
    "trim-checkpoints": "DeleteRecords of checkpoints",
    "event": "what a copy reports when its state changes",
}
MOMENTS: Mapping[str, str] = {
    "before": "all that came before is acknowledged, this not begun",
    "during": "handed over, and answered or not",
    "after": "acknowledged, and nothing behind it begun",
}
AT_PLACEMENT = frozenset({"start", "event"})
"""Reached only when a copy is placed or rebuilt."""

SETTLE_S = 5.0
MAX_DURING_S = 0.003
_T = TypeVar("_T")


class Doom(msgspec.Struct, frozen=True):
    """Die at the nth occurrence of a point from now on, of any one process.

    worker: whose; empty: of any. freeze: stop there instead, before or after.
    """

    point: str
    moment: str
    nth: int
    worker: str = ""
    freeze: bool = False


class Fate:
    """Counts towards the doom that is armed, and meets it."""

    def __init__(self, directory: Path) -> None:
        self._armed, self._fired = directory / "armed", directory / "fired"
        self._lock = threading.Lock()
        self._inode = 0
        self._doom: Doom | None = None
        self._left = 0

    def at(self, point: str, act: Callable[[], _T], settle: Callable[[], object] = lambda: None) -> _T:
        """Carries out what a point is, and dies there if it is time.

        Args:
            settle: waits until all that was handed over is acknowledged.
        """
        doom = self._reached(point)
        if doom is None:
            return act()
        if doom.moment == "before":
            settle()
            _meet(doom)
        elif doom.moment == "during":
            threading.Thread(target=_meet, args=(doom, MAX_DURING_S), daemon=True).start()
        done = act()
        if doom.moment == "after":
            settle()
        if doom.moment != "before":
            _meet(doom, MAX_DURING_S if doom.moment == "during" else 0)
        return done

    def _reached(self, point: str) -> Doom | None:
        """The doom to meet, now that its point is reached; None to continue."""
        with self._lock:
            self._look()
            if self._doom is None or self._doom.point != point or self._doom.worker not in ("", WORKER):
                return None
            self._left -= 1
            if self._left > 0:
                return None
            doom, self._doom = self._doom, None
            try:
                self._armed.rename(self._fired)
            except FileNotFoundError:
                return None  # another was first
            return doom

    def _look(self) -> None:
        try:
            inode = self._armed.stat().st_ino
        except FileNotFoundError:
            self._inode, self._doom = 0, None
            return
        if inode != self._inode:
            try:
                self._doom = msgspec.json.decode(self._armed.read_bytes(), type=Doom)
            except FileNotFoundError:
                return
            self._inode, self._left = inode, self._doom.nth


def _meet(doom: Doom, within_s: float = 0) -> None:
    time.sleep(random.uniform(0, within_s))
    if doom.freeze:
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(10)


WORKER = os.environ.get("HOLDFAST_WORKER", "")
FATE = Fate(Path(os.environ.get("DOOM_DIR", "/nonexistent")))


class DoomedProducer(Producer):
    """Producer that appenders and transactors write through."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._acked: dict[str, int] = {}

    def produce(self, topic: str, value: Any = None, *rest: Any, **named: Any) -> None:
        produce = super().produce
        FATE.at(self._point(topic, value or b""), lambda: produce(topic, value, *rest, **named), self._settle)

    def init_transactions(self, *arguments: Any) -> None:
        start = super().init_transactions
        FATE.at("start", lambda: start(*arguments))

    def begin_transaction(self, *arguments: Any) -> None:
        begin = super().begin_transaction
        FATE.at("begin", lambda: begin(*arguments))

    def commit_transaction(self, *arguments: Any) -> None:
        commit = super().commit_transaction
        FATE.at("commit", lambda: commit(*arguments), self._settle)

    def _settle(self) -> None:
        self.flush(SETTLE_S)

    def _point(self, topic: str, value: bytes) -> str:
        """Point at which a record is, by the topic it goes to."""
        if ".data." in topic:
            return "frame" if unpack(value).parts == 1 else "frame-part"
        match topic.rpartition(".")[2]:
            case "cuts":
                return "cut"
            case "checkpoints":
                return _checkpoint(value)
            case "progress":
                return self._progress(value)
            case "delivered":
                return "position"
            case "dead-letters":
                return "dead-letter"
            case "events":
                return "event"
            case "heartbeats":
                return "heartbeat"
            case _:
                return "row"

    def _progress(self, value: bytes) -> str:
        known = progress.decode(value)
        before, self._acked[known.unit] = self._acked.get(known.unit, 0), known.acked
        return "ack" if known.acked > before else "progress"


def _checkpoint(value: bytes) -> str:
    record = checkpoints.decode(value)
    if isinstance(record, Part):
        return "slice" if record.sweep else "delta"
    return "anchor" if isinstance(record, Anchor) else "marker"


class DoomedLog(KafkaLog):
    """Log that DeleteRecords goes through."""

    def trim(self, upto: Mapping[Partition, int]) -> None:
        trim = super().trim
        FATE.at(_trimmed(upto), lambda: trim(upto))


def _trimmed(partitions: Iterable[Partition]) -> str:
    return "trim-checkpoints" if any(one.topic.endswith(".checkpoints") for one in partitions) else "trim-data"


_REPLACED: Sequence[tuple[ModuleType, str, Any]] = (
    (kafka_client, "Producer", DoomedProducer),
    (door, "KafkaLog", DoomedLog),
    # Small parts and frequent trims: every point comes within a second, also with little state.
    (outputs, "MAX_FRAME_BYTES", 512),
    (parts, "PART_ENTRIES", 20),
    (parts, "PIECE_ENTRIES", 10),
    (parts, "SWEEP_BYTES", 512),
    (trimmer, "OUTPUT_MS", 50),
    (trimmer, "ANCHOR_MS", 150),
)


def main() -> int:
    for module, name, replacement in _REPLACED:
        assert hasattr(module, name), f"{module.__name__} has no {name} any more"
        setattr(module, name, replacement)
    return worker.main()


if __name__ == "__main__":
    sys.exit(main())
