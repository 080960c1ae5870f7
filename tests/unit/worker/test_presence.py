"""Whether a unit runs: by heartbeats, which are read from a while ago on, and by exit notices."""

from __future__ import annotations

from holdfast.schemas import assignments, heartbeats
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy
from holdfast.schemas.heartbeats import CopyState, Exit, Heartbeat, HeartbeatRecord
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.hosting.blocking_calls import Inline
from holdfast.services.log.memory import MemoryLog
from holdfast.services.worker.host.presence import SILENT_MS, Presence
from holdfast.services.worker.process.subscriptions import SharedReader

UNIT = assignments.unit_key("job", "0-abcdef", "a")
TOPICS = ClusterTopics("t")


class Asking:
    """A worker that asks for the unit, which w1 is to lead."""

    def __init__(self) -> None:
        self.now_ms = 10_000.0
        self._log = MemoryLog(lambda: int(self.now_ms))
        self._log.create(TOPICS.specs())
        self._appender = self._log.appender("w1")
        self._partition, self._assigned, self._asks = Partition(TOPICS.heartbeats, 0), Assigned(), Inline()
        self._control = SharedReader(self._log.reader("w0"))
        self._presence = Presence(
            self._log, self._asks, self._control, self._partition, self._assigned, lambda: int(self.now_ms)
        )
        self._epoch = 0
        self.led_by("w1")

    def led_by(self, worker: str) -> None:
        self._epoch += 1
        change = Change(UNIT, self._epoch, (Copy(worker, f"{worker}-1", PRIMARY),), reason="test")
        assert self._assigned.read(Assignment("test", self._epoch, (change,)))

    def write(self, record: HeartbeatRecord) -> None:
        self._appender.append(self._partition, heartbeats.encode(record))

    def beat(self, worker: str = "w1", state: str = "running") -> None:
        self.write(Heartbeat(worker, f"{worker}-1", 0, copies=(CopyState(UNIT, 1, state),)))

    def runs(self, after_ms: float = 0.0) -> bool:
        """As known after so long, if it was asked all the while."""
        for left in (after_ms, 0.0, 0.0):
            self.now_ms += left
            self._presence.turn(self.now_ms)
            self._presence.runs(UNIT, self.now_ms)
            self._asks.poll()
            self._control.poll(0)
        return self._presence.runs(UNIT, self.now_ms)


def test_a_leader_runs_as_long_as_it_reports() -> None:
    asking = Asking()
    for _ in range(5):
        asking.beat()
        assert asking.runs(after_ms=0.7 * SILENT_MS)
    assert not asking.runs(after_ms=1.1 * SILENT_MS)
    assert not asking.runs(after_ms=2 * SILENT_MS)


def test_nothing_is_known_before_a_while_was_listened() -> None:
    asking = Asking()
    assert asking.runs()
    assert asking.runs(after_ms=0.9 * SILENT_MS)
    assert not asking.runs(after_ms=0.2 * SILENT_MS)


def test_an_exit_notice_from_before_the_question_is_known_at_once() -> None:
    asking = Asking()
    asking.beat()
    asking.write(Exit("w1", "w1-0", 0))
    assert asking.runs()
    asking = Asking()
    asking.beat()
    asking.write(Exit("w1", "w1-1", 0))
    asking.now_ms += 400
    assert not asking.runs()


def test_a_new_leader_has_a_while_to_report() -> None:
    asking = Asking()
    asking.write(Exit("w1", "w1-1", 0))
    assert not asking.runs(after_ms=2 * SILENT_MS)
    asking.led_by("w2")
    assert asking.runs()
    assert asking.runs(after_ms=0.9 * SILENT_MS)
    asking.beat("w2", "restoring")
    assert asking.runs(after_ms=0.9 * SILENT_MS)
    assert not asking.runs(after_ms=SILENT_MS)


def test_a_copy_that_has_failed_does_not_run() -> None:
    asking = Asking()
    asking.beat()
    assert asking.runs()
    for _ in range(3):
        asking.beat(state="failed")
        last = asking.runs(after_ms=0.5 * SILENT_MS)
    assert not last
