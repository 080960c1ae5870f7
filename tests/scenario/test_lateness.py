"""What is dropped as late never depends on how records fall into batches, on silences, or on who is slow to answer.

Whatever is fetched, cut, asked and answered in whatever order: as long as the records are in time by their own order,
the final windows are those of one piece, and nothing is late.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.cuts import NO_WATERMARK, Cut
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.decisions.shares import beginning
from holdfast.services.kernel.operators.operator import TIME
from holdfast.services.kernel.plans.layout import SourceShare, TaskLayout
from holdfast.services.log.memory import MemoryLog
from holdfast.services.worker.core.idle_partitions import Question
from holdfast.services.worker.sources.user_topic import SourceFeed
from tests.support.examples import examples
from tests.support.operators import Harness

FIELDS = {"n": "int", "at": "timestamp"}
PARAMS = {"event_time": "at", "unit": "ms", "idle_after_s": 10, "allowed_lateness_s": 0, "format": "json"}
WINDOWS = {"aggregate": {"n": "count()", "sum": "sum(n)"}, "key": [], "window": {"size_s": 2, "slide_s": 1}}
PARTITIONS = (0, 1)
IDLE_AFTER_MS = 10_000
T0 = 1_700_000_000_000


class Source:
    """A source task over partitions that a test writes, fetches and cuts as it likes, and a window behind it."""

    def __init__(self) -> None:
        self.log = MemoryLog(lambda: T0)
        self.log.create([TopicSpec("in", len(PARTITIONS))])
        self._appender = self.log.appender("test")
        self._readers = {p: self.log.reader("test") for p in PARTITIONS}
        for p, reader in self._readers.items():
            reader.assign({Partition("in", p): 0})
        first = dict.fromkeys(PARTITIONS, 0)
        operator = OperatorPlan("src", "source", 1, (), PARAMS, FIELDS)
        task = TaskLayout("src-0", 0, operator, (), (), (), SourceShare("in", PARTITIONS))
        self.feed = SourceFeed(task, beginning({"src-0": first}).tasks["src-0"], 0)
        self.windows = Harness("aggregate", {**WINDOWS, "emit": "final"}, FIELDS)
        self.rows: list[dict[str, Any]] = []
        self.found: list[dict[str, Any]] = []
        self.now_ms, self.batch, self.watermark = 0.0, 0, NO_WATERMARK
        self.away: set[int] = set()
        self._asked: Question | None = None

    def append(self, partition: int, at_ms: int) -> None:
        self._appender.append(Partition("in", partition), b'{"n": 1, "at": %d}' % (T0 + at_ms))

    def fetch(self, partition: int) -> None:
        if partition not in self.away:
            for chunk in self._readers[partition].poll(0):
                self.feed.offer(chunk, self.now_ms)

    def cut(self, most: int) -> None:
        """The next batch: cut, read back, processed."""
        self.batch += 1
        ranges, _ = self.feed.propose(self.batch, most, 1 << 20, None)
        before, self.watermark = self.watermark, max(self.watermark, self.feed.watermark(ranges, self.now_ms))
        cut = Cut("src-0", self.batch, ranges, self.watermark, Id("a", self.batch), idle=self.feed.idle(self.now_ms))
        self.feed.read_cut(cut, self.now_ms)
        if any(r.stop > r.start for r in ranges):
            assert self.feed.idling is not None
            self.feed.idling.stirred(self.now_ms)
        rows = self.feed.take(self.batch)[0].rows.to_dicts()
        self.rows += rows
        assert self.windows.watermark == before
        self.found += self.windows.run(rows, watermark=self.watermark)

    def ask(self) -> None:
        assert self.feed.idling is not None
        if self._asked is None:
            asked = self.feed.idling.question(self.feed.standings(), NO_WATERMARK, NO_WATERMARK, self.now_ms)
            self._asked = asked
            self._ends = self.log.offsets([Partition("in", p) for p in PARTITIONS], "end")

    def answer(self) -> None:
        assert self.feed.idling is not None
        if self._asked is not None and not self.away.intersection(self._asked.partitions):
            ends = {partition.index: end for partition, end in self._ends.items()}
            self.feed.idling.answered(self._asked, ends, self.feed.standings())
        self._asked = None

    def in_one_piece(self) -> list[dict[str, Any]]:
        whole = Harness("aggregate", {**WINDOWS, "emit": "final"}, FIELDS)
        return [*whole.run(sorted(self.rows, key=lambda row: row[TIME])), *whole.end()]

    def check(self, records: int) -> None:
        """All that was written has come, and the windows are those of one piece."""
        self.away = set()
        for _ in range(2):
            for partition in PARTITIONS:
                self.fetch(partition)
            self.cut(1_000)
        self.found += self.windows.end()
        assert len(self.rows) == records
        assert sum(outcome.late for outcome in self.windows.outcomes) == 0
        assert sorted(self.found, key=lambda row: row[TIME]) == self.in_one_piece()


stretches = st.lists(
    st.tuples(
        st.sampled_from([(0,), (0,), (0, 1), (1, 0), (1,)]),  # which partitions are written
        st.sampled_from([(0, 1), (0,), (0,), (1,)]),  # which are fetched
        st.sampled_from([(True, True), (True, True), (True, False), (False, True)]),  # whether Kafka is asked, answers
        st.sampled_from([1, 6, 12]),  # seconds that pass each time
        st.integers(1, 4),  # how many times
        st.sampled_from([None, None, 0, 1]),  # whose leader goes away, or comes back
    ),
    max_size=8,
)
quick = examples(each_run=40, with_long=400)


@quick
@given(stretches)
def test_records_that_are_appended_in_the_order_of_time_are_never_late(some: list[Any]) -> None:
    """Whichever partitions are idle meanwhile, fetched late or asked about late, and whosever leader is away."""
    source, at_ms, records = Source(), 0, 0
    for written, fetched, (asks, answers), seconds, times, leader in [((0, 1), (0, 1), (0, 0), 1, 1, None), *some]:
        if leader is not None:
            source.away = {leader} - source.away
        for _ in range(times):
            for partition in written:
                if partition not in source.away:
                    source.append(partition, at_ms := at_ms + 3_000)
                    records += 1
            if asks:
                source.ask()
            for partition in fetched:
                source.fetch(partition)
            source.cut(2)
            if answers:
                source.answer()
            source.now_ms += seconds * 1_000
    source.check(records)


@quick
@given(st.lists(st.tuples(st.permutations(PARTITIONS), st.integers(0, 60), st.booleans()), max_size=8))
def test_pieces_of_a_backfill_lose_nothing_however_long_the_silence_between_them(some: list[Any]) -> None:
    """Each partition is in order by itself, and none is silent for long while the others are written."""
    source, records = Source(), 0
    at_ms = {0: 0, 1: 60_000}
    for order, silence_s, asked_early in some:
        source.now_ms += silence_s * 1_000
        for partition in order:
            for _ in range(3):
                source.append(partition, at_ms[partition])
                at_ms[partition] += 900
                records += 1
            source.fetch(partition)
            source.cut(2 if asked_early else 100)
            source.ask()
            source.answer()
            source.now_ms += 1_000
        for _ in range(6):
            source.ask()
            source.answer()
            source.cut(100)
            source.now_ms += silence_s * 200
    source.check(records)
