"""State that is split over other tasks is what these tasks would have, had they been there from the beginning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from msgspec import structs

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan, Seed
from holdfast.schemas.savepoints import Piece
from holdfast.services.kernel.codecs import keys
from holdfast.services.kernel.codecs.fields import DELETED
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.operators.catalogue import KINDS, build, describe
from holdfast.services.kernel.operators.kind import EVERY_TASK, OperatorKind
from holdfast.services.kernel.operators.operator import TIME, BatchContext
from holdfast.services.kernel.plans.handed_over import handed_over, split_by
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.plan import make_plan
from tests.unit.planning import jobs

FIELDS = {"f": "float", "s": "string", "x": "int", "at": "timestamp"}
KEY = ["f", "s"]
OPERATORS: dict[str, dict[str, Any]] = {
    "totals": {"aggregate": {"n": "count()", "x": "sum(x)"}, "key": KEY, "input": "s"},
    "hours": {"aggregate": {"n": "count()"}, "key": KEY, "window": {"size_s": 3600, "slide_s": 1800}, "input": "s"},
    "visits": {"aggregate": {"n": "count()"}, "key": KEY, "window": {"gap_s": 60}, "input": "s"},
    "once": {"dedup": {"within_s": 60}, "key": KEY, "emit": "each", "input": "s"},
    "beside": {"join": {"left": "s", "right": "t", "on": KEY}},
    "seldom": {"pace": {"every_s": 60}, "input": "totals"},
}
SECOND_US = 1_000_000
NOT_SPLIT = OperatorKind.split_by
ROWS = pl.DataFrame(
    {
        "f": [0.0, -0.0, float("nan"), None, 1.5, 2.5] * 20,
        "s": [None if i % 7 == 0 else f"s{i % 11}" for i in range(120)],
        "x": range(120),
        TIME: [i * 40 * SECOND_US for i in range(120)],
    }
)


def planned(name: str, tasks: int) -> Plan:
    sources = {
        "s": {"topic": "in", "fields": FIELDS, "event_time": "at"},
        "t": {"topic": "side", "fields": FIELDS, "event_time": "at", "table": KEY},
    }
    joined = name == "beside"
    before = {"totals": OPERATORS["totals"]} if name == "seldom" else {}
    operators = {**before, name: {**OPERATORS[name], "parallelism": tasks}}
    raw = jobs.job(operators, sources if joined else {"s": sources["s"]})
    return make_plan(
        interpret(raw), generation=jobs.GENERATION, id=Id("c", 1), topics=None, first={}, prefix="holdfast",
        versions={}, allow=(), describe=describe,
    )  # fmt: skip


def pieces(name: str, tasks: int) -> Iterator[Piece]:
    """State of each task behind two batches."""
    plan = planned(name, tasks)
    operator = next(one for one in plan.operators if one.name == name)
    rows = ROWS.with_columns(pl.from_epoch(TIME, "us").alias("at"))
    homes = keys.partitions(rows, KEY, tasks)
    for index in range(tasks):
        mine = rows.filter(pl.Series(homes == index))
        store = StateStore(MemoryImage())
        sides = [FIELDS, {**FIELDS, DELETED: "bool"}] if name == "beside" else [FIELDS]
        if name == "seldom":
            sides, mine = [dict(operator.fields)], mine.with_columns(pl.lit(1).alias("n"))
        task = build(operator, sides, store.of_task(f"{name}-{index}"))
        store.watch(True)
        for batch, part in enumerate((mine[: mine.height // 2], mine[mine.height // 2 :]), start=1):
            right = [part.with_columns(pl.lit(False).alias(DELETED))] if name == "beside" else []
            task.on_batch([part, *right], BatchContext(batch, NO_WATERMARK, NO_WATERMARK))
        entries: dict[str, list[tuple[bytes, bytes | None]]] = {}
        for table, key, value in store.written():
            assert value is not None
            entries.setdefault(table.partition("/")[2], []).append((key, value))
        yield from (Piece(f"{name}-{index}", table, found) for table, found in entries.items())


def tables(given: Iterator[Piece]) -> dict[tuple[str, str], dict[bytes, bytes | None]]:
    found: dict[tuple[str, str], dict[bytes, bytes | None]] = {}
    for piece in given:
        known = found.setdefault((piece.task, piece.table), {})
        assert not known.keys() & dict(piece.entries), "each entry comes once"
        known.update(piece.entries)
    return found


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2)])
def test_each_task_gets_the_state_of_its_keys(name: str, before: int, after: int) -> None:
    plan = planned(name, after)
    seed = Seed("t", "i", 2, {}, {}, kept=(name,), rescaled=(name,))
    found = tables(handed_over(structs.replace(plan, seed=seed), pieces(name, before)))
    direct = tables(pieces(name, after))
    rule = split_by(next(one for one in plan.operators if one.name == name)) or {}
    shared = {table for table, at in rule.items() if at == EVERY_TASK}
    assert {table for _, table in direct} == rule.keys()
    for (task, table), entries in direct.items():
        mine = found.pop((task, table))
        assert entries.items() <= mine.items() if table in shared else entries == mine
    assert {table for _, table in found} <= shared


def test_a_kind_that_says_how_its_state_is_split_is_covered_here() -> None:
    said = {
        name for name, kind in KINDS.items() if isinstance(kind, OperatorKind) and type(kind).split_by is not NOT_SPLIT
    }
    assert said == {"aggregate", "dedup", "join", "pace"}


def test_a_new_name_is_on_every_piece_and_a_table_that_nobody_knows_is_refused() -> None:
    plan = planned("totals", 2)
    seed = Seed("t", "i", 2, {}, {}, kept=("totals",), renamed={"totals": "sums"})
    given = [Piece("sums-1", "totals", [(b"k", b"v")]), Piece("totals-0", "totals", [(b"other", b"v")])]
    assert [*handed_over(structs.replace(plan, seed=seed), given)] == [Piece("totals-1", "totals", [(b"k", b"v")])]
    split = structs.replace(seed, rescaled=("totals",))
    with pytest.raises(StateCorrupted, match="table odd of totals cannot be split"):
        [*handed_over(structs.replace(plan, seed=split), [Piece("sums-0", "odd", [(b"k", b"v")])])]
