"""PROTOCOL 3: what waits, what a cut names, and when a source is idle."""

from __future__ import annotations

from unittest import mock

from holdfast.schemas.cuts import LOADED_WATERMARK, NO_WATERMARK, Cut, Range
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.decisions.shares import beginning
from holdfast.services.hosting.blocking_calls import Inline
from holdfast.services.kernel.codecs.fields import DELETED
from holdfast.services.kernel.plans.layout import SourceShare, TaskLayout
from holdfast.services.log.memory import MemoryLog
from holdfast.services.worker.sources.fetched import Fetched
from holdfast.services.worker.sources.user_topic import SourceFeed
from tests.support.avro import Known, avro, framed, record

FIELDS = {"n": "int", "at": "timestamp"}
PARAMS = {"event_time": "at", "unit": "ms", "idle_after_s": 10, "allowed_lateness_s": 1, "format": "json"}
T0 = 1_700_000_000_000


class Source:
    """A feed over two partitions of a log in memory."""

    def __init__(self, table: bool = False, schemas: Fetched | None = None) -> None:
        self.log = MemoryLog(lambda: T0)
        self.log.create([TopicSpec("in", 2)])
        self.appender = self.log.appender("test")
        self.reader = self.log.reader("test")
        params, fields = ({**PARAMS, "table": ["n"]}, {**FIELDS, DELETED: "bool?"}) if table else (PARAMS, FIELDS)
        params = params if schemas is None else {**params, "format": "avro"}
        operator = OperatorPlan("src", "source", 1, (), params, fields)
        share = SourceShare("in", (0, 1))
        self.task = TaskLayout("src-0", 0, operator, (), (), (), share)
        state = beginning({"src-0": {0: 0, 1: 0}}).tasks["src-0"]
        self.feed = SourceFeed(self.task, state, 0, schemas=schemas)
        self.reader.assign({Partition("in", p): o for p, o in self.feed.positions().items()})
        self.batch = 0

    def append(self, partition: int, *numbers: int) -> None:
        for n in numbers:
            self.appender.append(Partition("in", partition), b'{"n": %d, "at": %d}' % (n, T0 + n))

    def fetch(self, now_ms: float = 0) -> None:
        for chunk in self.reader.poll(0):
            self.feed.offer(chunk, now_ms)

    def cut(self, *ranges: Range, now_ms: float = 0) -> Cut:
        self.batch += 1
        cut = Cut("src-0", self.batch, ranges, NO_WATERMARK, Id("a", self.batch))
        self.feed.read_cut(cut, now_ms)
        return cut


def test_a_batch_is_exactly_the_records_its_cut_names() -> None:
    source = Source()
    source.append(0, 1, 2, 3)
    source.append(1, 4)
    source.fetch()
    source.cut(Range(0, 0, 2), Range(1, 0, 1))
    assert source.feed.ready(1)
    fed, dead, *_ = source.feed.take(1)
    assert fed.rows["n"].to_list() == [1, 2, 4]
    assert dead == []
    assert source.feed.records == 1


def test_the_weight_of_a_cut_is_the_bytes_of_its_records() -> None:
    source = Source()
    source.append(0, 1, 2, 3, 4)
    source.append(1, 5)
    source.fetch()
    each = len(b'{"n": 1, "at": %d}' % T0)
    cut = Cut("src-0", 1, (Range(0, 1, 3), Range(1, 0, 1)), NO_WATERMARK, Id("a", 1))
    assert source.feed.weight(cut) == 3 * each


def test_a_batch_waits_for_records_that_another_copy_had_already() -> None:
    source = Source()
    source.append(0, 1)
    source.fetch()
    source.cut(Range(0, 0, 3), Range(1, 0, 0))
    assert not source.feed.ready(1)
    source.append(0, 2, 3)
    source.fetch()
    assert source.feed.ready(1)


def test_records_below_the_position_are_dropped_whatever_brings_them() -> None:
    source = Source()
    source.append(0, 1, 2)
    source.fetch()
    source.cut(Range(0, 0, 2), Range(1, 0, 0))
    source.feed.take(1)
    source.reader.assign({Partition("in", 0): 0})
    source.append(0, 3)
    source.fetch()
    assert source.feed.records == 1
    ranges, _ = source.feed.propose(2, 100, 10_000, None)
    assert [(r.start, r.stop) for r in ranges] == [(2, 3), (0, 0)]


def test_cuts_ahead_keep_their_own_records() -> None:
    source = Source()
    source.append(0, 1, 2)
    source.fetch()
    for batch in (1, 2):
        ranges, _ = source.feed.propose(batch, 2, 10_000, None)
        source.cut(*ranges)
    assert [source.feed.take(batch)[0].rows["n"].to_list() for batch in (1, 2)] == [[1], [2]]


def test_the_watermark_is_the_slowest_partitions_newest_time_minus_the_lateness() -> None:
    source = Source()
    source.append(0, 5000)
    source.append(1, 3000)
    source.fetch()
    ranges, _ = source.feed.propose(1, 100, 10_000, None)
    assert source.feed.watermark(ranges, 0) == (T0 + 3000 - 1000) * 1000


def test_a_partition_that_brings_nothing_while_the_other_does_no_longer_holds_the_watermark_back() -> None:
    source = Source()
    source.fetch()
    for seconds in (5, 11):
        source.append(0, seconds * 1000)
        source.fetch(seconds * 1000)
        assert watermark(source, seconds * 1000) == NO_WATERMARK
    assert ask(source, 12_000)
    assert watermark(source, 12_000) == (T0 + 10_000) * 1000


def test_a_partition_that_is_merely_slow_to_be_fetched_is_not_idle() -> None:
    """A stalled fetch of a second once made a source idle: its watermark jumped, and its next records were late."""
    source = Source()
    source.append(0, 1)
    source.append(1, 2)
    source.reader.pause([Partition("in", 1)])
    for seconds in (1, 20, 40):
        source.append(0, seconds * 1000)
        source.fetch(seconds * 1000)
        assert watermark(source, seconds * 1000) == NO_WATERMARK
        assert not ask(source, seconds * 1000), "it has not met the end"


def test_a_partition_with_more_than_the_reader_has_brought_is_not_idle() -> None:
    """The end that the reader met is one of before: since then the leader went away, and came back with more."""
    source = Source()
    source.fetch()
    source.reader.pause([Partition("in", 1)])
    source.append(1, 3)
    for seconds in (5, 11):
        source.append(0, seconds * 1000)
        source.fetch(seconds * 1000)
        watermark(source, seconds * 1000)
    assert ask(source, 12_000)
    assert watermark(source, 12_000) == NO_WATERMARK


def watermark(source: Source, now_ms: float) -> int:
    """Of a cut of what waits, which is read back at once."""
    ranges, _ = source.feed.propose(source.batch + 1, 100, 10_000, None)
    found = source.feed.watermark(ranges, now_ms)
    source.cut(*ranges, now_ms=now_ms)
    if source.feed.idling is not None and any(r.stop > r.start for r in ranges):
        source.feed.idling.stirred(now_ms)
    return found


def ask(source: Source, now_ms: float) -> bool:
    """Whether Kafka was asked for ends."""
    assert source.feed.idling is not None
    question = source.feed.idling.question(source.feed.standings(), NO_WATERMARK, NO_WATERMARK, now_ms)
    if question is None:
        return False
    found = source.log.offsets([Partition("in", p) for p in question.partitions], "end")
    ends = {partition.index: end for partition, end in found.items()}
    source.feed.idling.answered(question, ends, source.feed.standings())
    return True


def test_a_drain_ends_at_the_end_offsets_and_not_behind_them() -> None:
    source = Source()
    source.append(0, 1, 2)
    source.fetch()
    ends = {0: 2, 1: 0}
    source.append(0, 3)
    source.fetch()
    assert source.feed.at_end(ends)
    ranges, final = source.feed.propose(1, 100, 10_000, ends)
    assert final
    assert [(r.start, r.stop) for r in ranges] == [(0, 2), (0, 0)]


def loaded(source: Source, records: int = 100) -> bool:
    """Whether the next cut says so."""
    ranges, _ = source.feed.propose(source.batch + 1, records, 10_000, None)
    source.cut(*ranges)
    watermark = source.feed.watermark(ranges, 0)
    assert watermark in (NO_WATERMARK, LOADED_WATERMARK)
    return watermark == LOADED_WATERMARK


def test_a_table_is_loaded_by_the_cut_that_reaches_the_end_of_its_last_partition() -> None:
    source = Source(table=True)
    assert not loaded(source), "nothing was read yet"
    source.append(0, 1, 2, 3)
    source.append(1, 1)
    source.fetch()
    assert not loaded(source, records=2)
    assert not loaded(source, records=2)
    assert loaded(source, records=2)


def test_an_empty_table_is_loaded_once_its_end_was_met() -> None:
    source = Source(table=True)
    source.fetch()
    assert loaded(source)


def test_a_table_that_is_written_all_the_time_is_loaded_anyway() -> None:
    source = Source(table=True)
    source.append(0, 1, 2)
    source.fetch()
    for n in range(3, 9, 2):
        source.append(0, n, n + 1)
        source.fetch()
        reached = loaded(source, records=2)
    assert reached, "the records of the first end are cut, later ones wait"
    assert source.feed.records > 0


def test_a_table_is_never_idle() -> None:
    source = Source(table=True)
    source.fetch()
    assert not source.feed.idle(10_000_000)


def test_deletions_come_with_their_keys_whatever_partition_they_lie_in() -> None:
    source = Source(table=True)
    source.append(0, 1)
    source.appender.append(Partition("in", 0), None, key=b"8")
    source.append(1, 2)
    source.appender.append(Partition("in", 1), None, key=b"no number")
    source.appender.append(Partition("in", 1), None, key=b"9")
    source.fetch()
    source.cut(Range(0, 0, 1), Range(1, 0, 1))
    source.cut(Range(0, 1, 2), Range(1, 1, 3))
    assert source.feed.take(1)[0].rows.select("n", DELETED).rows() == [(1, None), (2, None)]
    fed, dead, *_ = source.feed.take(2)
    assert fed.rows.select("n", DELETED).rows() == [(8, True), (9, True)]
    assert [(one.partition, one.offset) for one in dead] == [(1, 1)]
    assert dead[0].reason == 'a deletion: of its key, n: expected int, found "no number"'


def test_records_whose_schema_is_not_known_yet_are_kept_out_with_all_behind_them_until_the_registry_answers() -> None:
    schema, later = record(("n", "long"), ("at", "long")), record(("n", "int"), ("at", "long"))
    registry, asks = Known({1: schema, 2: later}, away=1), Inline()
    source = Source(schemas=Fetched(registry, asks, lambda: T0))
    resumed: list[int] = []
    source.feed.resumes = lambda: resumed.append(source.feed.lives)

    def put(id: int, n: int) -> None:
        written = schema if id == 1 else later
        source.appender.append(Partition("in", 0), framed(id, avro(written, {"n": n, "at": T0 + n})))
        source.fetch()

    put(1, 1)
    put(1, 2)
    assert (source.feed.records, source.feed.positions()[0], source.feed.waits) == (0, 0, "")
    assert source.feed.keeps_out
    with mock.patch("holdfast.services.worker.sources.fetched.PAUSE_S", 0):
        asks.poll()
    assert (resumed, registry.asked) == ([1], [1, 1])
    put(1, 3)
    assert source.feed.records == 0, "the reader is not back where the source stands"
    source.feed.rewired()
    source.reader.assign({Partition("in", p): o for p, o in source.feed.positions().items()})
    source.fetch()
    assert source.feed.records == 3
    put(2, 4)
    assert source.feed.records == 3
    source.cut(Range(0, 0, 3), Range(1, 0, 0))
    assert source.feed.take(1).fed.rows["n"].to_list() == [1, 2, 3]


def test_a_cut_that_names_an_unknown_schema_decides_it_for_every_copy() -> None:
    schema = record(("n", "long"), ("at", "long"))
    asks = Inline()
    source = Source(schemas=Fetched(Known({1: schema}), asks, lambda: T0))
    source.appender.append(Partition("in", 0), framed(1, avro(schema, {"n": 1, "at": T0})))
    source.appender.append(Partition("in", 0), framed(9, b""))
    source.fetch()
    asks.poll()
    source.feed.rewired()
    source.reader.assign({Partition("in", p): o for p, o in source.feed.positions().items()})
    source.fetch()
    ranges, _ = source.feed.propose(1, 100, 10_000, None)
    assert source.feed.unknown(1) == (9,)
    source.feed.read_cut(Cut("src-0", 1, ranges, NO_WATERMARK, Id("a", 1), unknown=(1, 9)), 0)
    brought = source.feed.take(1)
    assert [letter.reason for letter in brought.dead] == [f"the registry does not know schema {id}" for id in (1, 9)]
