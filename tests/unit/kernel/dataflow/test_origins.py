"""A refused row names the record that it came of, in batches of any size and behind filter, select and union."""

from __future__ import annotations

import random
from collections import defaultdict

import msgspec
import pytest

from holdfast.schemas.cuts import Cut, Range
from holdfast.schemas.dead_letters import NOWHERE, DeadLetter, Position
from holdfast.schemas.decided import Id
from holdfast.services.kernel.dataflow.cut_records import Records, TopicCuts
from holdfast.services.kernel.dataflow.origins import Origins
from holdfast.services.kernel.dataflow.unit import Unit
from holdfast.services.kernel.operators.operator import BatchContext, Refused
from holdfast.services.kernel.plans.layout import UnitLayout, unit_layouts
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import StateStore
from tests.support.purity import GENERATION, TOPICS, planned

JOB = """
name: refusals
sources:
  a: {topic: first, fields: {id: int, t: int}, late: topic}
  b: {topic: second, fields: {id: int, t: int}, late: topic}
operators:
  some: {filter: "id % 3 <> 0", input: a}
  named: {select: [id, "t + 0 AS t"], input: some}
  both: {union: [named, b]}
  seconds: {aggregate: {n: "count()"}, window: {size_s: 1}, input: both}
  pairs: {join: {left: some, right: b, on: [id], within_s: 1}}
  sevens: {python: "tests.support.raising:Fussy", params: {key: t, number: id, bad: 7}, input: both}
  again: {python: "tests.support.raising:Fussy", params: {key: t, number: id, bad: 5}, input: sevens}
  once: {dedup: {within_s: 2}, key: [id], emit: each, input: both}
  fifths: {python: "tests.support.raising:Fussy", params: {key: t, number: id, bad: 5}, input: once}
  held: {dedup: {within_s: 2}, key: [id], input: both}
  each: {python: "tests.support.raising:Fussy", params: {key: t, number: id, bad: 1}, input: held}
  counts: {python: "tests.support.raising:Fussy", params: {key: n, number: n, bad: 1}, input: seconds}
queries:
  t: {input: fifths, sink: {topic: t}}
  u: {input: each, sink: {topic: u}}
  v: {input: counts, sink: {topic: v}}
  q: {input: seconds, sink: {topic: q}}
  r: {input: again, sink: {topic: r}}
  s: {input: pairs, sink: {topic: s}}
"""
SECOND = 1_000_000


def letters_of(layout: UnitLayout, given: dict[str, list[int]], size: int) -> list[DeadLetter]:
    """Records n of each source have the id n, lie at offset 2 n + 1, and have the event times that are given, in s."""
    unit, found = Unit(layout, StateStore(MemoryImage(), [])), list[DeadLetter]()
    sources = {task.operator.name: task for task in layout.tasks if task.source is not None}
    cuts = {name: TopicCuts(task) for name, task in sources.items()}
    for batch, start in enumerate(range(0, len(given["a"]), size), start=1):
        fed = {}
        for name, times in given.items():
            part = range(start, min(start + size, len(times)))
            values = [msgspec.json.encode({"id": at, "t": times[at]}) for at in part]
            if name == "b" and start == 0:
                values[0] = b"no JSON"
            offsets = [2 * at + 1 for at in part]
            halves = len(part) // 2
            ranges, records = [], []
            for half, index in ((slice(None, halves), 0), (slice(halves, None), 1)):
                stamps = [times[at] * 1000 for at in part[half]]
                ranges.append(Range(index, 0, 1))
                records.append(Records(offsets[half], values[half], stamps, {}))
            read = cuts[name].read(ranges, records, {})
            cut = Cut(
                sources[name].name, batch, tuple(ranges), max(times[: part.stop]) * SECOND, Id("t", 1), Id("t", 0)
            )
            brought = cuts[name].bring(cut, read)
            fed[sources[name].name] = brought.fed
        found += unit.process(batch, fed, {}).dead
    return found


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 31, 32, 33, 400])
def test_rows_that_are_late_or_at_which_code_raises_name_their_records(size: int) -> None:
    chance = random.Random(size)
    given = {name: [at // 4 - chance.choice([0, 0, 0, 5]) + 100 for at in range(130)] for name in ("a", "b")}
    (layout,) = unit_layouts(planned(JOB), TOPICS.job("refusals", GENERATION)).values()
    found = letters_of(layout, given, size)
    why = defaultdict[str, set[str]](set)
    for letter in found:
        if letter.unnamed:
            assert Position(letter.topic, letter.partition, letter.offset) == NOWHERE
            why[letter.origin].add(letter.unnamed)
            continue
        id = msgspec.json.decode(letter.row)["id"]
        assert letter.offset == 2 * id + 1
        assert letter.topic in ("first", "second")
        assert id % 3 or letter.topic == "second"
        assert letter.partition == (id - id // size * size >= (min(size, 130 - id // size * size)) // 2)
        assert letter.of_operator
    named = {letter.origin for letter in found if not letter.unnamed}
    assert named == {"sevens", "fifths", *(["seconds", "pairs", "once", "held"] if size < 130 else [])} | (
        {"each"} if size > 1 else set()
    )
    assert len({letter for letter in found if letter.origin == "sevens"}) == 19 - 7 + 18
    assert why == {
        "again": {"'sevens' puts out rows that its code makes"},
        "counts": {"'seconds' puts out rows of many records each"},
        **({"each": {"'held' had kept the row since an earlier batch"}} if size < 130 else {}),
    }


def test_a_row_from_another_unit_says_that_no_offsets_came_with_it() -> None:
    split = JOB.replace("key: [id], emit: each,", "key: [id], emit: each, parallelism: 2,")
    layouts = unit_layouts(planned(split), TOPICS.job("refusals", GENERATION)).values()
    layout, task = next((one, task) for one in layouts for task in one.tasks if task.operator.name == "once")
    found = Origins(layout.tasks, {}, {}, BatchContext(1, 0, 0)).of(task, Refused("late", "{}", 0, 0))
    assert found == (NOWHERE, "the row came in from another unit, which sends no offsets")
