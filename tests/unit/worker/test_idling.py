"""When a partition is idle, what it gives way to, and when a silence closes what is open."""

from __future__ import annotations

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.services.worker.core.idle_partitions import IdlePartitions, Question, Standing

AFTER_MS, CLOSE_MS = 1_000, 5_000
CLOSING = 10_000


class Task:
    """Two partitions: 0 falls silent at 100, 1 continues; both are read to their ends."""

    def __init__(self, idle_after_ms: float | None = AFTER_MS, close_after_ms: float | None = None) -> None:
        self.now_ms = 0.0
        self.idling = IdlePartitions(idle_after_ms, close_after_ms, self.now_ms)
        self.watermarks = {0: NO_WATERMARK, 1: NO_WATERMARK}
        self.ends = {0: 0, 1: 0}

    @property
    def standings(self) -> dict[int, Standing]:
        return {p: Standing(True, self.ends[p], self.watermarks[p]) for p in (0, 1)}

    def brings(self, partition: int, watermark: int, at_ms: float) -> None:
        self.now_ms = at_ms
        self.ends[partition] += 1
        self.watermarks[partition] = watermark
        self.idling.heard(partition, at_ms)
        self.idling.stirred(at_ms)

    def asks(self, at_ms: float, others: int = NO_WATERMARK, closing: int = NO_WATERMARK) -> Question | None:
        self.now_ms = at_ms
        return self.idling.question(self.standings, others, closing, at_ms)

    def hears(self, question: Question | None, ends: dict[int, int] | None = None) -> None:
        assert question is not None
        self.idling.answered(question, self.ends if ends is None else ends, self.standings)

    @property
    def watermark(self) -> int:
        return self.idling.watermark(self.standings)


def task_that_continues() -> Task:
    task = Task()
    task.brings(0, 100, at_ms=100)
    for at_ms in range(200, 2_000, 100):
        task.brings(1, at_ms, at_ms)
    return task


def test_a_partition_that_is_silent_while_others_bring_records_gives_way() -> None:
    task = task_that_continues()
    assert task.watermark == 100
    task.hears(task.asks(1_900))
    assert task.watermark == 1_900
    assert not task.idling.idle(task.standings), "the other one is not"


def test_an_idle_mark_gives_way_to_records_that_were_there_when_kafka_was_asked() -> None:
    """What lies in the silent partition and is not fetched yet was appended since, behind that."""
    task = task_that_continues()
    question = task.asks(1_900)
    task.brings(1, 9_999, at_ms=1_950)
    task.hears(question)
    assert task.watermark == 1_900


def test_an_end_that_kafka_does_not_confirm_is_no_end() -> None:
    task = task_that_continues()
    task.hears(task.asks(1_900), {0: 7, 1: task.ends[1]})
    assert task.watermark == 100, "it holds more than the reader has brought"
    assert task.asks(1_901) is None, "its silence counts again"
    task.brings(1, 4_000, at_ms=4_000)
    task.hears(task.asks(5_000), {})
    assert task.watermark == 100, "its leader is away"


def test_the_watermark_hangs_while_the_leader_of_an_idle_partition_is_away() -> None:
    task = task_that_continues()
    task.hears(task.asks(1_900))
    task.brings(1, 5_000, at_ms=2_000)
    assert task.watermark == 1_900, "until Kafka is asked again, and answers"
    task.hears(task.asks(2_100))
    assert task.watermark == 5_000


def test_in_a_silence_of_all_nothing_becomes_idle() -> None:
    task = Task()
    task.brings(0, 100, at_ms=100)
    task.brings(1, 900, at_ms=900)
    assert task.asks(1_000_000) is None
    assert task.watermark == 100
    assert not task.idling.waits(task.standings, NO_WATERMARK, NO_WATERMARK, 1_000_000)


def test_after_a_silence_the_time_counts_again() -> None:
    """The second piece of a backfill comes to one partition a little before the other."""
    task = Task()
    task.brings(0, 100, at_ms=100)
    task.brings(1, 900, at_ms=900)
    task.brings(1, 50_000, at_ms=100_000)
    assert task.asks(100_900) is None
    task.brings(0, 110, at_ms=100_950)
    assert task.asks(101_900) is None
    assert task.watermark == 110


def test_a_partition_that_stays_silent_then_gives_way_also_where_records_are_rare() -> None:
    task = Task()
    assert task.asks(0) is None
    for at_ms in (2_000, 4_000, 6_000):
        task.brings(1, at_ms, at_ms)
        assert task.asks(at_ms + AFTER_MS - 1) is None
        assert task.idling.waits(task.standings, NO_WATERMARK, NO_WATERMARK, at_ms + 1)
        task.hears(task.asks(at_ms + AFTER_MS))
        assert task.watermark == at_ms


def test_a_task_of_idle_partitions_follows_the_others() -> None:
    task = Task()
    task.brings(0, 100, at_ms=100)
    task.brings(1, 200, at_ms=200)
    for at_ms in range(300, 3_000, 100):
        task.idling.stirred(at_ms)
    question = task.asks(3_000, others=2_500)
    task.hears(question)
    assert task.idling.idle(task.standings)
    assert task.watermark == 2_500
    task.brings(0, 110, at_ms=3_100)
    assert not task.idling.idle(task.standings)


def test_never_idle_means_never() -> None:
    task = Task(idle_after_ms=None)
    task.brings(0, 100, at_ms=100)
    for at_ms in range(200, 100_000, 100):
        task.idling.stirred(at_ms)
    assert task.asks(100_000, others=50_000) is None


def test_a_silence_of_all_closes_what_is_open_where_the_source_asks_for_it() -> None:
    task = Task(close_after_ms=CLOSE_MS)
    task.brings(0, 100, at_ms=100)
    task.brings(1, 900, at_ms=900)
    assert task.idling.waits(task.standings, NO_WATERMARK, CLOSING, 1_000)
    assert task.asks(900 + CLOSE_MS - 1, closing=CLOSING) is None
    task.hears(task.asks(900 + CLOSE_MS, closing=CLOSING))
    assert task.watermark == CLOSING
    task.brings(0, 110, at_ms=90_000)
    assert task.watermark == 110, "what is cut by then never goes back"


def test_a_leader_that_is_away_keeps_what_is_open_from_closing() -> None:
    task = Task(close_after_ms=CLOSE_MS)
    task.brings(0, 100, at_ms=100)
    task.hears(task.asks(100 + CLOSE_MS, closing=CLOSING), {0: 1})
    assert task.watermark == NO_WATERMARK
