"""A table is the right side of joins on its key, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.services.kernel.codecs.fields import DELETED
from holdfast.services.kernel.operators import catalogue
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from tests.unit.planning.jobs import job, plan, problems, query, routes, source

BESIDE = {"join": {"left": "s", "right": "t", "on": ["x"]}}


def table(**more: Any) -> dict[str, Any]:
    return source("table", **{"table": ["x"], **more})


def tabled(operators: dict[str, Any], **more: Any) -> dict[str, Any]:
    return job(operators, {"s": source(), "t": table(**more)})


def join(**more: Any) -> dict[str, Any]:
    return {"j": {"join": {**BESIDE["join"], **more}}}


DEDUP = {"dedup": {"within_s": 1}, "key": ["x"], "input": "f"}
READS = "t is a table, which only a join with a table reads"
INSTEAD = "without `table` it is a stream of changes"


@pytest.mark.parametrize(
    ("raw", "path", "message", "hint"),
    [
        (
            tabled(join(within_s=5)),
            "operators.j.join.within_s",
            "t is a table: its rows count at any time",
            "leave it out",
        ),
        (
            tabled(join(between=[-5, 5])),
            "operators.j.join.between",
            "t is a table: its rows count at any time",
            "leave it out",
        ),
        (
            tabled(join(kind="full")),
            "operators.j.join.kind",
            "full would give rows of table t that no row meets, and they count at any time",
            "use inner, left, semi or anti",
        ),
        (
            tabled(join(right="s", within_s=5, between=[-5, 5])),
            "operators.j.join.between",
            "stands beside within_s, and both say how far apart rows are",
            "leave one out",
        ),
        (
            tabled(join(right="s")),
            "operators.j.join.within_s",
            "is missing: two streams are joined within a time",
            "give the largest difference of event times, or make the right side a table",
        ),
        (tabled(join(on=["y"])), "operators.j.join.on", "is y, but the key of table t is x", "on: [x]"),
        (
            tabled(join(), table=["x", "y"]),
            "operators.j.join.on",
            "is x, but the key of table t is x, y",
            "on: [x, y]",
        ),
        (
            tabled(join(left="t", right="s")),
            "operators.j.join.left",
            "is a table, and s on the right is none",
            "exchange the sides: rows on the left meet the table on the right",
        ),
        (
            tabled(join(right="s", within_s=5, emit="updates")),
            "operators.j.join.emit",
            "is for a join with a table, and s is none",
            "leave it out",
        ),
        (
            tabled(join(left="t", emit="each")),
            "operators.j.join.emit",
            "each does not go with t, which is a table: its rows replace each other",
            "leave it out",
        ),
        (
            tabled({**join(left="t"), "f": {"filter": "x > 1", "input": "j"}, "d": DEDUP}),
            "operators.d",
            "reads changes of tables, of which j cannot say how late they may come",
            "without `table` a topic is a stream of changes, with times",
        ),
        (tabled({"f": {"filter": "x > 1", "input": "t"}}), "operators.f.input", READS, INSTEAD),
        (tabled({"u": {"union": ["s", "t"]}}), "operators.u.union[1]", READS, INSTEAD),
        (tabled({"o": {"spark": "mine:f", "input": "t"}}), "operators.o.input", READS, INSTEAD),
        (job(sources={"t": table()}, queries={"q": query("t")}), "queries.q.input", READS, INSTEAD),
        (tabled(join(), table=["z"]), "sources.t.table[0]", "there is no field 'z'", "known: x, y"),
        (tabled(join(), table=["x", "x"]), "sources.t.table[1]", "'x' is named twice", "name it once"),
        (
            tabled(join(), fields={"x": "list<int>"}),
            "sources.t.table[0]",
            "'x' is a list<int>, which is no key",
            "choose a plain column",
        ),
        (tabled(join(), start="latest"), "sources.t.start", "a table is read from its beginning", "leave it out"),
    ],
)
def test_a_spec_that_no_table_can_have_is_refused_with_path_and_hint(
    raw: Any, path: str, message: str, hint: str
) -> None:
    found = problems(raw)
    assert (path, message, hint) in [(one.path, one.message, one.hint) for one in found]
    assert len({one.path for one in found}) == len(found), "each mistake once"


def test_a_mistake_in_the_tables_key_is_not_reported_for_its_joins_as_well() -> None:
    assert [one.path for one in problems(tabled(join(), table=["z"]))] == ["sources.t.table[0]"]


def streams(raw: dict[str, Any]) -> dict[str, catalogue.Stream]:
    checked = check(interpret(raw), ["mine"])
    assert checked.problems == []
    return checked.streams


def test_a_join_with_a_table_has_the_columns_of_both_and_the_left_sides_key() -> None:
    found = streams(tabled({"n": {"aggregate": {"n": "count()"}, "key": ["x"], "input": "s"}, **join(left="n")}))
    assert found["j"].fields == {"x": "int", "n": "int", "y": "int"}
    assert found["j"].row_key == ("x",)
    outer = streams(tabled(join(kind="left")))["j"]
    assert outer.fields == {"x": "int", "y": "int", "y_right": "int?"}
    assert DELETED in streams(tabled(join()))["t"].fields


def test_the_order_in_which_the_join_names_the_key_does_not_matter() -> None:
    assert problems(tabled(join(on=["y", "x"]), table=["x", "y"])) == []


def test_both_sides_go_by_the_key_and_what_replaces_other_rows_by_its_own_key_from_there() -> None:
    totals = {"n": {"aggregate": {"x": "last(x)"}, "key": ["y"], "input": "s", "parallelism": 2}}
    raw = tabled({**totals, "j": {**join(left="n")["j"], "parallelism": 2}})
    made = plan(raw)
    assert routes(made) == {"s n": "keyed", "n j": "keyed", "t j": "keyed", "j sink-q": "keyed"}
    assert next(edge.key for edge in made.edges if edge.producer == "j") == ("y",)
