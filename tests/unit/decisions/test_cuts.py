"""PROTOCOL 3: which cuts of the cut log are valid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holdfast.schemas.cuts import (
    LOADED_WATERMARK,
    Beginning,
    Control,
    Cut,
    CutsSnapshot,
    Range,
    Replaced,
    decode,
    encode,
)
from holdfast.schemas.decided import Id
from holdfast.services.decisions.cuts import CutLog
from holdfast.services.decisions.shares import Share, beginning


def start() -> CutsSnapshot:
    return beginning({"flights-0": {0: 100, 2: 5}, "weather-0": {0: 0}})


def cut(
    log: CutLog, task: str, author: str, counter: int, take: int = 10, watermark: int = 0, final: bool = False
) -> Cut:
    before = log.task(task)
    ranges = tuple(Range(r.partition, r.stop, r.stop + take) for r in before.ranges)
    return Cut(task, before.batch + 1, ranges, watermark, Id(author, counter), before.last, final=final)


def test_a_cut_that_follows_the_last_valid_one_is_valid() -> None:
    log = CutLog(start())
    assert log.read(0, cut(log, "flights-0", "a", 1))
    assert log.read(1, cut(log, "flights-0", "a", 2))
    assert log.task("flights-0").batch == 2
    assert [(r.partition, r.start, r.stop) for r in log.task("flights-0").ranges] == [(0, 110, 120), (2, 15, 25)]
    assert log.newest_batch == 2


def test_the_first_of_two_proposals_for_a_batch_counts() -> None:
    log = CutLog(start())
    ours, theirs = cut(log, "flights-0", "a", 1, take=3), cut(log, "flights-0", "b", 1, take=7)
    assert log.read(0, ours)
    assert not log.read(1, theirs)
    assert log.task("flights-0").last == Id("a", 1)


def test_a_cut_with_a_hole_a_step_back_or_a_falling_watermark_is_invalid() -> None:
    log = CutLog(start())
    log.read(0, cut(log, "weather-0", "a", 1, watermark=50))
    good = cut(log, "weather-0", "a", 2, watermark=60)
    hole = Cut(good.task, good.batch, (Range(0, 11, 20),), 60, good.id, good.prev)
    back = Cut(good.task, good.batch, (Range(0, 10, 9),), 60, good.id, good.prev)
    falling = Cut(good.task, good.batch, good.ranges, 49, good.id, good.prev)
    skipped = Cut(good.task, good.batch + 1, good.ranges, 60, good.id, good.prev)
    partial = Cut(good.task, good.batch, (), 60, good.id, good.prev)
    for offset, bad in enumerate((hole, back, falling, skipped, partial), start=1):
        assert not log.read(offset, bad), bad
    assert log.read(9, good)


def test_after_a_pause_no_cut_is_valid_until_resume_or_drain() -> None:
    log = CutLog(start())
    assert log.read(0, Control("pause", offset=4))
    assert not log.read(1, cut(log, "weather-0", "a", 1))
    assert log.read(2, Control("resume", offset=5))
    assert log.read(3, cut(log, "weather-0", "a", 2))


def test_a_pause_that_levels_lets_tasks_reach_the_newest_batch_and_none_beyond() -> None:
    log = CutLog(start())
    log.read(0, cut(log, "flights-0", "a", 1))
    log.read(1, cut(log, "flights-0", "a", 2))
    assert log.read(2, Control("pause", offset=4, level=True))
    assert not log.is_level
    assert not log.read(3, cut(log, "flights-0", "a", 3)), "it has cut the newest batch"
    assert log.read(4, cut(log, "weather-0", "a", 4))
    known = CutLog(log.snapshot())  # a reader that begins here knows what may come
    for one in (log, known):
        assert one.read(5, cut(one, "weather-0", "a", 5))
        assert one.is_level
        assert not one.read(6, cut(one, "weather-0", "a", 6))
    assert decode(encode(Control("pause", 4, level=True))) == Control("pause", 4, level=True)
    assert log.read(7, Control("pause", offset=5)), "as a process of the release before writes it"
    assert not log.admits(2)


def test_a_control_counts_once_however_often_it_is_written() -> None:
    log = CutLog(start())
    assert log.read(0, Control("pause", offset=4))
    assert log.read(1, Control("resume", offset=5))
    assert not log.read(2, Control("pause", offset=4))
    assert not log.paused


def test_final_is_for_ever_and_needs_a_drain() -> None:
    log = CutLog(start())
    assert not log.read(0, cut(log, "weather-0", "a", 1, final=True))
    assert log.read(1, Control("drain", offset=9, ends={"weather-0": {0: 10}, "flights-0": {0: 0, 2: 0}}))
    assert log.read(2, cut(log, "weather-0", "a", 2, final=True))
    assert not log.read(3, cut(log, "weather-0", "a", 3))


@pytest.mark.parametrize(
    "ends",
    [
        {},
        {"weather-0": {0: 10}},
        {"weather-0": {0: 10}, "flights-0": {0: 100}},
        {"weather-0": {}, "flights-0": {0: 100, 2: 5}},
        {"weather-0": {0: -1001}, "flights-0": {0: 100, 2: 5}},
        {"weather-0": {0: 10}, "flights-0": {0: 100, 2: -1}},
    ],
)
def test_a_drain_without_an_end_for_every_partition_is_invalid_and_a_later_one_counts(
    ends: dict[str, dict[int, int]],
) -> None:
    log = CutLog(start())
    assert not log.read(0, Control("drain", offset=9, ends=ends))
    assert log.ends is None
    whole = {"weather-0": {0: 10}, "flights-0": {0: 100, 2: 5}}
    assert log.read(1, Control("drain", offset=9, ends=whole))
    assert log.ends == whole


def test_an_end_below_what_was_cut_meanwhile_counts() -> None:
    log = CutLog(start())
    log.read(0, cut(log, "weather-0", "a", 1))
    assert log.read(1, Control("drain", offset=9, ends={"weather-0": {0: 7}, "flights-0": {0: 100, 2: 5}}))


def test_records_and_controls_survive_encoding() -> None:
    log = CutLog(start())
    record = cut(log, "flights-0", "a", 1, final=True, watermark=-7)
    assert decode(encode(record)) == record
    control = Control("drain", 3, {"flights-0": {0: 12}})
    assert decode(encode(control)) == control


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5), st.booleans()), max_size=40), st.data())
def test_a_reader_that_starts_from_any_snapshot_agrees_with_one_from_the_start(
    steps: list[tuple[str, int, bool]], data: st.DataObject
) -> None:
    whole = CutLog(start())
    records: list[Cut] = []
    for counter, (author, take, stale) in enumerate(steps):
        record = records[-1] if stale and records else cut(whole, "flights-0", author, counter, take)
        records.append(record)
        whole.read(len(records) - 1, record)
    at = data.draw(st.integers(0, len(records)))
    early = CutLog(start())
    for offset, record in enumerate(records[:at]):
        early.read(offset, record)
    late = CutLog(early.snapshot())
    for offset, record in enumerate(records):
        late.read(offset, record)
    assert late.tasks == whole.tasks


def test_a_table_is_loaded_from_the_first_batch_whose_cut_says_so() -> None:
    log, tables = CutLog(beginning({"t-0": {0: 0}, "t-1": {1: 0}, "s-0": {0: 0}})), ["t-0", "t-1"]
    assert log.loaded(tables) is None
    for offset, (task, watermark) in enumerate(
        [("t-0", 0), ("t-0", LOADED_WATERMARK), ("t-0", LOADED_WATERMARK), ("t-1", LOADED_WATERMARK)]
    ):
        assert log.loaded(tables) is None
        assert log.read(offset, cut(log, task, "a", offset, watermark=watermark))
    assert log.loaded(tables) == 2, "the later of both, and their first"
    assert log.loaded([]) == 0
    assert CutLog(log.snapshot()).loaded(tables) == 3, "no earlier than it was"


def test_a_table_that_has_ended_is_loaded() -> None:
    log = CutLog(beginning({"t-0": {0: 0}}))
    log.read(0, Control("drain", offset=1, ends={"t-0": {0: 10}}))
    log.read(1, cut(log, "t-0", "a", 1, final=True))
    assert log.loaded(["t-0"]) == 1


# -- partitions that appear --------------------------------------------------------------------------------------------


GROWING = {"flights-0": Share(0, 2), "flights-1": Share(1, 2)}


def grown(log: CutLog, task: str, counter: int, *joining: Range) -> Cut:
    good = cut(log, task, "a", counter)
    return structs.replace(good, ranges=(*good.ranges, *joining))


def two_tasks() -> CutLog:
    """Of a topic with three partitions: 0 and 2, and 1."""
    return CutLog(beginning({"flights-0": {0: 100, 2: 5}, "flights-1": {1: 0}}), GROWING)


def test_a_partition_that_appears_joins_its_task_at_its_first_record() -> None:
    log = two_tasks()
    assert log.joining("flights-1", 3) == ()
    assert log.joining("flights-1", 4) == (Range(3, 0, 0),)
    assert log.joining("flights-0", 4) == (), "partition 3 is the other's"
    assert log.joining("flights-0", 9) == (Range(4, 0, 0), Range(6, 0, 0), Range(8, 0, 0))
    assert log.read(0, grown(log, "flights-1", 1, Range(3, 0, 0)))
    assert log.read(1, cut(log, "flights-1", "a", 2))
    assert log.task("flights-1").ranges[-1] == Range(3, 0, 10)
    assert CutLog(log.snapshot(), GROWING).task("flights-1") == log.task("flights-1")


@pytest.mark.parametrize(
    ("task", "joining"),
    [
        ("flights-1", (Range(3, 7, 7),)),  # not at its first record
        ("flights-1", (Range(3, 0, 7),)),  # with records that no copy can have read yet
        ("flights-1", (Range(3, 0, 0, 5),)),  # with a time though nothing was cut
        ("flights-1", (Range(5, 0, 0),)),  # leaves one out
        ("flights-1", (Range(3, 0, 0), Range(3, 0, 0))),
        ("flights-1", (Range(5, 0, 0), Range(3, 0, 0))),
        ("flights-1", (Range(1, 10, 10),)),  # has it
        ("flights-0", (Range(3, 0, 0),)),  # is another's
        ("flights-0", (Range(4, 0, 0), Range(5, 0, 0))),
        ("flights-0", (Range(-2, 0, 0),)),
    ],
)
def test_nothing_else_may_join(task: str, joining: tuple[Range, ...]) -> None:
    log = two_tasks()
    before = log.snapshot()
    assert not log.read(0, grown(log, task, 1, *joining))
    assert log.task(task) == before.tasks[task]
    assert log.read(1, cut(log, task, "a", 2))


def test_a_table_and_a_commit_log_keep_their_partitions() -> None:
    log = CutLog(beginning({"flights-0": {0: 0}}))
    assert log.joining("flights-0", 8) == ()
    assert not log.read(0, grown(log, "flights-0", 1, Range(1, 0, 0)))


def test_a_partition_that_joins_does_not_hide_a_hole_in_another() -> None:
    log = two_tasks()
    good = grown(log, "flights-1", 1, Range(3, 0, 0))
    assert not log.read(0, structs.replace(good, ranges=(Range(1, 1, 5), Range(3, 0, 0))))
    assert not log.read(1, structs.replace(good, ranges=(Range(3, 0, 0),)))


# -- topics that were replaced -----------------------------------------------------------------------------------------

REPLACED = Replaced("flights", "flights", "id-1", "id-2", {"flights-0": 0, "flights-1": 0})


def pinned() -> CutLog:
    log = CutLog(beginning({"flights-0": {0: 100, 2: 5}, "flights-1": {1: 0}}, {"flights": "id-1"}), GROWING)
    assert log.read(0, cut(log, "flights-0", "a", 1))
    return log


def resume(offset: int, id: str = "id-2", **first: dict[int, int]) -> Control:
    by_task = {f"flights-{task[-1]}": positions for task, positions in first.items()}
    return Control("resume", offset, beginnings={"flights": Beginning(id, by_task)})


def test_once_its_topic_is_another_one_no_cut_is_valid_until_a_resume_says_where_to_continue() -> None:
    log = pinned()
    under_way = cut(log, "flights-0", "a", 2)
    assert log.read(1, REPLACED)
    assert not log.read(2, cut(log, "flights-0", "a", 3))
    assert not log.read(3, cut(log, "flights-1", "a", 4)), "nor of the other tasks"
    assert not log.read(4, Control("resume", 7)), "it does not say where"
    assert log.read(5, resume(8, t0={0: 0}, t1={1: 4}))
    assert not log.read(6, under_way), "of the old topic"
    assert log.known("flights") == ("id-1", "id-2")
    assert log.task("flights-0").ranges == (Range(0, 0, 0),)
    assert log.read(7, cut(log, "flights-0", "a", 5))
    assert log.task("flights-0").batch == 2, "batches continue"
    assert log.read(8, grown(log, "flights-1", 6, Range(3, 0, 0)))


@pytest.mark.parametrize(
    "wrong",
    [
        Replaced("flights", "flights", "id-0", "id-2"),  # another was read
        Replaced("flights", "flights", "id-1", "id-1"),
        Replaced("flights", "flights", "id-1", ""),
        Replaced("weather", "weather", "id-1", "id-2"),
    ],
)
def test_a_topic_is_replaced_by_one_that_was_never_read(wrong: Replaced) -> None:
    log = pinned()
    assert not log.read(1, wrong)
    assert log.read(2, REPLACED)
    assert not log.read(3, REPLACED)
    assert log.read(4, resume(8, t0={0: 0}, t1={}))
    assert not log.read(5, Replaced("flights", "flights", "id-2", "id-1")), "a broker that lags tells of the old one"
    assert log.read(6, Replaced("flights", "flights", "id-2", "id-3"))


@pytest.mark.parametrize(
    "wrong",
    [
        resume(8, t0={0: 0}),  # says nothing of a task
        resume(8, t0={0: 0}, t1={1: -1001}),
        resume(8, t0={0: 0}, t1={0: 0}),  # is another's
        resume(8, t0={0: 0, 4: 0}, t1={1: 0}),  # leaves one out
        resume(8, "id-1", t0={0: 0}, t1={1: 0}),
        resume(8, "", t0={0: 0}, t1={1: 0}),
        Control("resume", 8),
    ],
)
def test_a_resume_that_does_not_fit_changes_nothing(wrong: Control) -> None:
    log = pinned()
    log.read(1, REPLACED)
    before = log.snapshot()
    assert not log.read(2, wrong)
    assert structs.replace(log.snapshot(), upto=before.upto) == before
    assert log.read(3, resume(8, t0={0: 0}, t1={1: 0})), "and its offset is not used up"


def test_a_pause_and_a_replaced_topic_end_together() -> None:
    log = pinned()
    log.read(1, REPLACED)
    assert log.read(2, Control("pause", 3))
    assert CutLog(log.snapshot(), GROWING).snapshot() == log.snapshot()
    assert log.read(3, resume(8, t0={0: 0, 2: 0}, t1={1: 0}))
    assert (log.paused, log.replaced) == (False, {})


def test_a_drain_ends_a_source_whose_topic_was_replaced_where_it_stands() -> None:
    log = pinned()
    log.read(1, REPLACED)
    assert log.read(2, Control("drain", 3, {"flights-0": {0: 7}, "flights-1": {}}))
    assert log.ends == {"flights-0": {0: 110, 2: 15}, "flights-1": {1: 0}}
    assert log.read(3, cut(log, "flights-0", "a", 2, take=0, final=True))


def test_a_topic_that_is_replaced_while_the_job_drains_ends_where_it_stands() -> None:
    log = pinned()
    assert log.read(1, Control("drain", 3, {"flights-0": {0: 500, 2: 9}, "flights-1": {1: 7}}))
    assert log.read(2, REPLACED)
    assert (log.paused, log.replaced) == (False, {})
    assert log.ends == {"flights-0": {0: 110, 2: 15}, "flights-1": {1: 0}}
    assert log.read(3, cut(log, "flights-0", "a", 2, take=0, final=True))


def test_without_a_known_id_no_topic_is_replaced() -> None:
    assert not two_tasks().read(0, REPLACED)
    assert decode(encode(REPLACED)) == REPLACED
    control = resume(8, t0={0: 0}, t1={1: 4})
    assert decode(encode(control)) == control
