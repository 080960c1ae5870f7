"""Random records through a whole job in memory: no record ends it, and each is a row or one dead letter with a reason.

Each part of a campaign is a job of its own: other fields may be null, other batches, another sink.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.jobs import JobSpec
from holdfast.services.client.local_run import Finished, LocalRun, complete
from holdfast.services.kernel.codecs.registered import Schemas
from holdfast.services.kernel.dataflow.source_records import SourceDecoder
from tests.records.drawing import Drawn, Pool
from tests.records.formats import FORMATS, registry, source_of

SIZES = (33, *[500] * 12, *[5_000] * 12)
ALONE = 100
"""So many records of a part are decoded alone, too: what becomes of one depends on no other."""
SELECT = [
    "id", "n", "f", "s", "b", "t", "d", "m", "w", "y", "l", "x", "r", "q", "n + 1 AS n1", "n * n AS n2", "f / n AS q1",
    "LN(f) AS q2", "UPPER(s) AS s1", "STRPOS(s, '(') AS s2", "LEFT(s, 0) AS s3", "CAST(s AS TIMESTAMP) AS t1",
    "CAST(s AS DECIMAL(10,2)) AS m1", "t + INTERVAL '1 day' AS t2", "EXTRACT(EPOCH FROM t) AS t3", "m / 3 AS m2",
    "w * w AS w1", "CAST(n AS TIMESTAMP) AS t4", "b IS NOT TRUE AS b1", "ARRAY_SUM(l) AS l1",
    "ARRAY_TO_STRING(x, ',') AS x1",
    "r.a AS r1", "CAST(f AS BIGINT) AS n3", "d + INTERVAL '1 day' AS d1", "CAST(w AS VARCHAR) AS w2",
]  # fmt: skip
OF_TEXT = [
    "CAST(SPLIT_PART(s, ' ', 1) AS BIGINT) AS id", "s", "UPPER(s) AS s1", "STRPOS(s, '(') AS s2", "LEFT(s, 0) AS s3",
    "CAST(SUBSTR(s, 8) AS TIMESTAMP) AS t1", "REVERSE(s) AS s5", "REGEXP_EXTRACT(s, '(\\S+)$', 1) AS s6",
]  # fmt: skip
RAISING = "REGEXP_LIKE('aa', s) AS s4"
"""Refuses the rows whose text is no regular expression."""


@dataclass
class Counted:
    """The counts of a campaign."""

    records: int = 0
    rows: int = 0
    letters: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    cpu_s: float = 0.0
    unread: int = 0
    """Records that were taken, and that nothing else could read."""

    def add(self, other: Counted) -> None:
        self.records += other.records
        self.rows += other.rows
        self.letters += other.letters
        self.reasons += other.reasons
        self.unread += other.unread

    def __str__(self) -> str:
        return (
            f"{self.records:,} records, {self.rows:,} rows, {self.letters:,} dead letters "
            f"of {len(self.reasons):,} reasons, {f'{self.unread:,} unread, ' if self.unread else ''}{self.cpu_s:.0f} s"
        )


def part(format: str, seed: int, count: int, sizes: Sequence[int] = SIZES) -> Counted:
    """Draws so many records, and holds what became of them against what had to.

    Args:
        sizes: of batches, of which the seed draws one.

    Raises:
        AssertionError: with the record.
    """
    some = Random(f"{format} {seed}")
    pool, draw = Pool(some), FORMATS[format].draw
    known = registry(format, pool)
    records = [draw(some, 4 * index, pool) for index in range(count)]
    spec = job(some, format, pool, sizes)
    finished = LocalRun(complete(spec), {"s": [[one.value for one in records]]}, [], known).run()  # type: ignore[misc]
    judge(records, finished, FORMATS[format].passes_null, rows_of_one=format != "arrow")
    alone(some, finished, records, known)
    return Counted(count, len(finished.rows["q"]), len(finished.dead), Counter(map(_kind, finished.dead)))


def job(some: Random, format: str, pool: Pool, sizes: Sequence[int]) -> JobSpec:
    fields = FORMATS[format].fields
    texts = "n" not in fields
    known = OF_TEXT if texts else SELECT
    select = some.sample(known[1:], some.randint(min(5, len(known) - 1), len(known) - 1))
    source: dict[str, Any] = {"topic": "s", "fields": fields, "max_ahead_s": None, **source_of(format, pool)}
    if some.random() < 0.3:
        source["event_time"] = (
            "COALESCE(TRY_CAST(s AS TIMESTAMP), CAST(0 AS TIMESTAMP))"
            if texts
            else ("COALESCE(t, CAST(0 AS TIMESTAMP))")
        )
    totals = {"n": "count()", "m": "max(s)"} | ({} if texts else {"f": "sum(f)"})
    items = [known[0], *select, *([RAISING] if some.random() < 0.03 else [])]
    return JobSpec.model_validate({
        "name": "random",
        "sources": {"s": source},
        "operators": {
            "o": {"select": items, "input": "s"},
            "a": {"aggregate": totals, "input": "s", "emit": "final"},
        },
        "queries": {
            "q": {"input": "o", "sink": {"topic": "q", "format": some.choice(("json", "json", "arrow"))}},
            "total": {"input": "a", "sink": {"topic": "total"}},
        },
        "max_batch_records": some.choice(sizes),
    })  # fmt: skip


def judge(records: list[Drawn], finished: Finished, passes_null: bool, rows_of_one: bool) -> None:
    """Each record is rows or a letter; a whole one is its rows, and what is wrong is a letter."""
    ids = Counter(json.loads(line)["id"] for line in finished.rows["q"])
    refused = Counter(one.offset for one in finished.dead if one.origin == "s")
    failed = [one for one in finished.dead if one.origin != "s"]
    (total,) = (json.loads(line)["n"] for line in finished.rows["total"]) if finished.rows["total"] else (0,)
    assert all(one.reason for one in finished.dead)
    assert max(refused.values(), default=1) == 1, "a record is named twice"
    assert set(refused) <= set(range(len(records)))
    assert total == ids.total() + len(failed), "rows and letters of operators are all rows of the source"
    assert max(Counter((one.origin, one.offset, one.row) for one in failed).values(), default=1) == 1
    for offset, one in enumerate(records):
        if one.taken is True:
            assert offset not in refused, (one.value, [d.reason for d in finished.dead if d.offset == offset])
        elif one.taken is False:
            assert offset in refused, (one.value, one.ids)
    whole = {id for offset, one in enumerate(records) if one.taken for id in one.ids}
    lost = whole - set(ids) - set(map(_id, failed))
    assert not lost, [one.value for one in records if lost & set(one.ids)][:3]
    if rows_of_one:
        passed = sum(one.value is None for one in records) if passes_null else 0
        assert total + len(refused) + passed == len(records)


def alone(some: Random, finished: Finished, records: list[Drawn], known: Schemas) -> None:
    """What becomes of a record, and why, is the same without any other."""
    (source,) = (one for one in finished.plan.operators if one.kind == "source")
    decoder = SourceDecoder(source, known)
    reasons = {one.offset: one.reason for one in finished.dead if one.origin == "s"}
    for offset in some.sample(range(len(records)), min(ALONE, len(records))):
        found = decoder.decode([records[offset].value], [0], {0: None}).refused
        expected = [reasons[offset]] if offset in reasons else []
        assert [reason for _, reason in found] == expected, records[offset].value


def _id(letter: DeadLetter) -> int | None:
    """The number of a record whose row an operator refused; a row of text begins with it."""
    row = json.loads(letter.row)
    if "id" in row:
        return int(row["id"])
    number: str = row["s"].split(" ")[0]
    return int(number) if number.isdecimal() else None


def _kind(letter: DeadLetter) -> str:
    return letter.reason[:40]
