"""When a worker's loop has anything to do: a copy at which nothing came and nothing is due costs a turn nothing.

PROTOCOL 5, on workers with a log in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import pytest

from holdfast.schemas.topics import Partition
from holdfast.services.log.memory import MemoryAppender
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.core import cut_rhythm
from holdfast.services.worker.core.checkpoint_run import Phase
from holdfast.services.worker.core.cut_rhythm import IDLE_CUT_MS, LOOK_MS
from holdfast.services.worker.host.surroundings import Subscriber
from holdfast.services.worker.process.loop import MAX_WAIT_MS
from holdfast.services.worker.process.subscriptions import SharedReader
from holdfast.services.worker.unit.checkpoints.trimmer import OUTPUT_MS
from holdfast.services.worker.unit.facts.copy_view import CopyView
from holdfast.services.worker.unit.inputs.intake import Intake
from holdfast.services.worker.unit.turns.handlers import Handlers
from holdfast.services.worker.unit.turns.running_copy import RunningCopy
from holdfast.services.worker.unit.turns.turns import Task, Turns
from tests.scenario.test_standby import FAST, SECONDARIES, everywhere, feed, mute_progress
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import check, orders

TURNS = 1_000
WHERE = Partition("t.assignments", 0)
EVENTS = Partition("t.events", 0)


def test_a_worker_to_which_nothing_comes_leaves_its_copies_alone() -> None:
    cluster = MemoryCluster(FAST)
    worker = cluster.start("w1")
    everywhere(cluster, worker)
    cluster.turn(TURNS)
    with mock.patch.object(RunningCopy, "step", autospec=True, side_effect=RunningCopy.step) as step:
        cluster.turn(TURNS)
    idle_cuts, trims = TURNS // IDLE_CUT_MS, TURNS // OUTPUT_MS
    # of a cut it comes to know one after the other: its cut, its frames, their acknowledgement, its checkpoint
    assert step.call_count <= len(cluster.units) * (10 * idle_cuts + 2 * trims)


def test_the_view_of_a_copy_is_as_new_at_each_task_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    take, changed = Turns.take, set[str]()

    def watch(self: Turns, now_ms: float) -> None:
        def watched(task: Task) -> Callable[[CopyView], None]:
            def do(seen: CopyView) -> None:
                before = self._view(now_ms)
                assert seen == before, task.name
                task.do(seen)
                if self._view(now_ms) != before:
                    changed.add(task.name)

            return do

        self._do = [(watched(task), task.changes) for task in self._tasks]
        take(self, now_ms)

    monkeypatch.setattr(Turns, "take", watch)
    fed, cluster = orders(120), MemoryCluster(FAST)
    first, second = cluster.start("w1"), cluster.start("w2")
    everywhere(cluster, first, (second, SECONDARIES["hot"]))
    for number in range(0, len(fed), 20):
        feed(cluster, fed[number : number + 20])
        cluster.turn(100)
    everywhere(cluster, second, (first, SECONDARIES["active"]))
    cluster.run_to_end()
    check(cluster.rows, fed)
    assert "process" in changed


def test_a_source_that_is_far_ahead_waits_without_looking_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took a third of a core when it looked each 2 ms."""
    monkeypatch.setattr(cut_rhythm, "MAX_LEAD_BATCHES", 3)
    cluster, fed = MemoryCluster(FAST), orders(120)
    others, source = cluster.start("w1"), cluster.start("w2")
    cluster.place({unit: (source if unit.startswith("orders") else others,) for unit in cluster.units})
    cluster.turn(TURNS)
    mute_progress(others)
    for number in range(0, len(fed), 20):
        feed(cluster, fed[number : number + 20])
        cluster.turn(100)
    with mock.patch.object(RunningCopy, "step", autospec=True, side_effect=RunningCopy.step) as step:
        cluster.turn(TURNS)
    sources = {copy.running for copy in source._copies.here.values()}
    steps = sum(call.args[0] in sources for call in step.call_args_list)
    looks = len(sources) * TURNS / LOOK_MS
    assert looks / 2 < steps < 2 * looks


def suspended_and_fed(prepare: Callable[[Intake], None]) -> tuple[set[Handlers], set[Handlers]]:
    """Handlers of suspended copies that records and frames came to, and no checkpoints; those of them that took a turn.

    prepare: how their intakes stand before.
    """
    read, mark, step = Handlers._read_input, Handlers._read_markers, RunningCopy.step
    suspended, offered, stepped = set[Handlers](), set[Handlers](), set[Handlers]()

    def read_input(self: Handlers, by: Callable[[Chunk, int], bool], chunk: Chunk) -> None:
        offered.update({self} & suspended)
        read(self, by, chunk)

    def read_markers(self: Handlers, chunk: Chunk) -> None:
        if not suspended:
            mark(self, chunk)

    def noted(self: RunningCopy, now_ms: float) -> bool:
        stepped.update({self.handlers} & suspended)
        return step(self, now_ms)

    reading = mock.patch.multiple(Handlers, _read_input=read_input, _read_markers=read_markers)
    with reading, mock.patch.object(RunningCopy, "step", noted):
        cluster = MemoryCluster(FAST)
        first, second = cluster.start("w1"), cluster.start("w2")
        everywhere(cluster, first, (second, SECONDARIES["hot"]))
        cluster.turn(TURNS)
        for one in (copy.running for copy in second._copies.here.values() if copy.running is not None):
            suspended.add(one.handlers)
            prepare(one.intake)
        feed(cluster, orders(200))
        cluster.turn(50)
    assert offered
    return offered, stepped


def test_input_of_a_suspended_copy_makes_no_turn_of_it_due() -> None:
    _, stepped = suspended_and_fed(lambda intake: None)
    assert not stepped


@pytest.mark.parametrize(
    "prepare",
    [
        lambda intake: setattr(intake, "_raises", True),
        lambda intake: setattr(intake.cutter, "rewired", True),
        lambda intake: intake._beginnings.update({Partition("in-doubt", 0): ("", None)}),
    ],
    ids=["its code can raise", "it is to read other partitions", "a topic is in doubt"],
)
def test_unless_it_has_something_to_do_then(prepare: Callable[[Intake], None]) -> None:
    """What is too much for it: test_busy_sleepers.py."""
    fed, stepped = suspended_and_fed(prepare)
    assert stepped == fed


def test_a_worker_says_when_it_is_due_and_does_nothing_before() -> None:
    cluster = MemoryCluster(FAST)
    worker = cluster.start("w1")
    everywhere(cluster, worker)
    cluster.turn(TURNS)
    waited = 0
    for _ in range(20):
        quiet = 0
        while quiet < 3 or worker.next_deadline <= cluster.now_ms + 1:  # what it wrote comes back to it
            cluster.now_ms += 1
            due = worker.next_deadline <= cluster.now_ms
            quiet = 0 if worker.turn() or due else quiet + 1
        early = int(min(worker.next_deadline - cluster.now_ms - 1, MAX_WAIT_MS))
        cluster.now_ms += early
        waited += early
        with mock.patch.object(RunningCopy, "step") as step:
            worker.turn()
        step.assert_not_called()
    assert waited > 20


def test_a_copy_that_gives_up_its_charge_settles_the_checkpoint_that_was_valid_by_then() -> None:
    """Otherwise it would spin, and apply no checkpoints, until it leads again."""
    fed = orders(200)
    cluster = MemoryCluster(FAST)
    first, second = cluster.start("w1"), cluster.start("w2")
    everywhere(cluster, first, (second, SECONDARIES["hot"]))
    feed(cluster, fed)
    unit = cluster.units[-1]

    def checkpoint() -> Phase | None:
        running = next((c.running for key, c in first._copies.here.items() if key.endswith(f"/{unit}")), None)
        return None if running is None else running.checkpoints.checkpointer.writer.phase

    cluster.until(lambda: checkpoint() is Phase.DECIDING)  # the marker is written: it is read in the next turn,
    everywhere(cluster, (first, SECONDARIES["hot"]), second)  # and so is this
    cluster.turn(20)
    assert checkpoint() is Phase.RESTING
    cluster.run_to_end()
    check(cluster.rows, fed)


def test_a_loop_that_waits_for_data_goes_to_look_for_the_assignment_that_woke_it() -> None:
    """An active standby waits for data; when the leader's worker is killed none may come."""
    cluster = MemoryCluster(FAST)
    first, second = cluster.start("w1"), cluster.start("w2")
    everywhere(cluster, first, (second, SECONDARIES["standby"]))
    feed(cluster, orders(200))
    cluster.turn(300)
    everywhere(cluster, second)
    waits: list[tuple[SharedReader, float]] = []
    poll = SharedReader.poll

    def late(reader: SharedReader, timeout_s: float) -> bool:
        """Control brings nothing in the turn in which data have the assignment."""
        waits.append((reader, timeout_s))
        return poll(reader, timeout_s) if reader is second._data else False

    with mock.patch.object(SharedReader, "poll", late):
        cluster.now_ms += 1
        second.turn()
        waits.clear()
        cluster.now_ms += 1
        second.turn()
    assert [reader for reader, timeout_s in waits if timeout_s > 0] == [second._control]
    second.turn()
    assert second.decided == cluster.log.offsets([WHERE], "end")[WHERE] - 1


def test_a_copy_that_opens_its_inputs_tells_it_where_both_readers_listen() -> None:
    """What ends their requests at the broker: the next ones name the inputs."""
    cluster = MemoryCluster(FAST)
    worker = cluster.start("w1")
    told: list[str] = []
    add, append = SharedReader.add, MemoryAppender.append

    def adds(reader: SharedReader, subscriber: Subscriber, positions: Mapping[Partition, int]) -> None:
        told.append("data" if reader is worker._data else "control")
        add(reader, subscriber, positions)

    def appends(appender: MemoryAppender, partition: Partition, *args: Any, **named: Any) -> None:
        told.extend(["event"] if partition == EVENTS else [])
        append(appender, partition, *args, **named)

    with mock.patch.object(SharedReader, "add", adds), mock.patch.object(MemoryAppender, "append", appends):
        cluster.place({cluster.units[0]: (worker,)})
        cluster.turn(20)
    assert told[-3:] == ["control", "data", "event"]
    assert EVENTS in worker._data._next
    assert EVENTS in worker._control._next


def test_progress_that_copies_publish_in_one_turn_goes_out_together() -> None:
    """Records of one partition share a request if nothing is appended between them."""
    cluster = MemoryCluster(FAST)
    worker, progress = cluster.start("w1"), Partition(cluster.topics.progress, 0)
    everywhere(cluster, worker)
    fed = orders(1_000, 1)
    turns: list[list[bool]] = []
    true = MemoryAppender.append

    def append(self: MemoryAppender, partition: Partition, value: bytes | None, **more: Any) -> None:
        turns[-1].append(partition == progress)
        true(self, partition, value, **more)

    with mock.patch.object(MemoryAppender, "append", append):
        for number in range(500):
            turns.append([])
            feed(cluster, fed[2 * number : 2 * number + 2])
            cluster.turn()
    assert all(is_progress == sorted(is_progress) for is_progress in turns)
    assert max(map(sum, turns)) == len(cluster.units)
