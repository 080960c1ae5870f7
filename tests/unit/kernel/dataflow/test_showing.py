"""Decision 0077: the number that a batch gives changes with all that must be the same, and with nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.decided import Id
from holdfast.schemas.heartbeats import DID_NOTHING
from holdfast.schemas.topics import ClusterTopics
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.dataflow.effect_digest import MASK, digest
from holdfast.services.kernel.dataflow.unit import Produced, Sent, SinkRows
from holdfast.services.kernel.dataflow.unit_frames import Frames
from holdfast.services.kernel.dataflow.walk import Walked
from holdfast.services.kernel.plans.layout import UnitLayout, unit_layouts
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.planning.loader import load
from holdfast.services.planning.plan import make_plan

JOB = """
name: j
sources: {s: {topic: in, fields: {k: string, x: int}, parallelism: 2}}
operators:
  n: {aggregate: {n: "count()"}, key: [k], input: s, emit: updates, parallelism: 2}
queries: {q: {input: n, sink: {topic: out}}}
"""


def _layouts() -> dict[str, UnitLayout]:
    plan = make_plan(
        load(JOB, "job.yaml"),
        generation="1-abcdef",
        id=Id("t", 1),
        topics=None,
        first={},
        prefix="t",
        versions={},
        allow=[],
    )
    return unit_layouts(plan, ClusterTopics("t").job("j", "1-abcdef"))


LAYOUTS = _layouts()
SOURCE, SINK = LAYOUTS["s-0"], LAYOUTS["n-0"]
SENDS, DELIVERS = SOURCE.tasks[0], next(task for task in SINK.tasks if task.operator.kind == "sink")


def rows(task: Any, **columns: list[Any]) -> pl.DataFrame:
    fields = task.operator.fields
    return pl.DataFrame({**columns, "_time": [1] * len(next(iter(columns.values())))}, stream_schema(fields))


def walked(k: str = "a", x: int = 1, watermark: int = 5, end: bool = False) -> Walked:
    sent = [Sent(SENDS, SENDS.outputs[0], rows(SENDS, k=[k], x=[x]), watermark, end)]
    return Walked(Produced(sent=sent), [], True, 1, Counter(), {})


def delivered(n: int = 3) -> Walked:
    made = Produced(sinks=[SinkRows(DELIVERS, rows(DELIVERS, k=["a"], n=[n]), 5)])
    return Walked(made, [], False, 0, Counter(), {})


def of(one: Walked, layout: UnitLayout = SOURCE, changed: Any = (), batch: int = 7) -> int:
    return digest(Frames(layout, 1), batch, one, changed)


def test_the_same_batch_gives_the_same_number_every_time() -> None:
    assert len({of(walked()) for _ in range(5)}) == 1
    assert 0 < of(walked()) <= MASK


@pytest.mark.parametrize(
    "other",
    [
        lambda: of(walked(k="b")),
        lambda: of(walked(x=2)),
        lambda: of(walked(watermark=6)),
        lambda: of(walked(end=True)),
        lambda: of(walked(), changed=[("t", b"k", b"v")]),
        lambda: of(walked()._replace(dead=[DeadLetter("s", "bad", 7)])),
    ],
    ids=["where a row goes", "a value", "a watermark", "the end", "state", "a dead letter"],
)
def test_bytes_that_must_be_the_same_change_the_number(other: Callable[[], int]) -> None:
    assert other() != of(walked())


def test_rows_for_users_count_by_their_bytes() -> None:
    assert of(delivered(), SINK) == of(delivered(), SINK)
    assert of(delivered(), SINK) != of(delivered(4), SINK)
    assert of(delivered(), SINK, batch=8) == of(delivered(), SINK), "rows with a key stay in their partition"


def test_a_batch_without_anything_did_nothing() -> None:
    nothing = Walked(Produced(), [], False, 0, Counter(), {})
    assert of(nothing) == DID_NOTHING
    assert of(nothing, changed=[("t", b"k", None)]) != DID_NOTHING
    assert of(walked()._replace(produced=Produced())) != DID_NOTHING, "rows came in"


def test_a_store_says_what_was_written_since_it_was_asked_last() -> None:
    store = StateStore(MemoryImage())
    table = store.table("n-0/b")
    table.put_many([b"x"], [(1,)])
    assert list(store.written()) == [], "nobody asked"
    store.watch(True)
    table.put_many([b"y", b"x"], [(2,), (3,)])
    store.table("n-0/a").put_many([b"z"], [(4,)])
    table.delete_many([b"y"])
    found = list(store.written())
    assert [(name, key, value is None) for name, key, value in found] == [
        ("n-0/a", b"z", False), ("n-0/b", b"x", False), ("n-0/b", b"y", True),
    ]  # fmt: skip
    assert list(store.written()) == []
    table.put_many([b"x"], [(5,)])
    store.forget()
    assert list(store.written()) == [], "of another image"
    store.watch(False)
    store.table("n-0/b").put_many([b"x"], [(5,)])
    assert list(store.written()) == []
