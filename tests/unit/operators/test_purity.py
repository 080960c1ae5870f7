"""Every operator is a pure function of its batches: in another process, with another hash seed, restored or not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Context, PythonOperator, State
from holdfast.services.kernel.codecs.fields import DELETED
from holdfast.services.kernel.codecs.maps import entries
from holdfast.services.kernel.operators.catalogue import KINDS, Stream
from tests.support.examples import examples
from tests.support.other_process import OtherProcess
from tests.support.purity import Rows, operator_sends

FIELDS = {
    "k": "string?",
    "n": "int?",
    "f": "float?",
    "d": "decimal(20,2)?",
    "b": "bool?",
    "t": "timestamp?",
    "id": "int",
    "src": "int",
    "host": "string",
}
RIGHT = {"k": "string?", "other": "float?"}
TABLE = Stream({**RIGHT, DELETED: "bool?"}, ("k",))
WINDOWED = Stream({"k": "string", "n": "int", "window_start": "timestamp", "window_end": "timestamp"}, ("k",), True)
TOTALS = {
    **{
        f"{function}_{column}": f"{function}({column})"
        for function in ("min", "max", "first", "last")
        for column in "nfdt"
    },
    **{f"{function}_{column}": f"{function}({column})" for function in ("sum", "mean") for column in "nfd"},
    "count": "count()",
}
SKETCHES = {
    "distinct": "count_distinct(k)", "median": "quantile(f, 0.5)", "spread": "stddev(f)", "of_ints": "var_pop(n)",
    "best": "max_by(d, f)", "worst": "min_by(t, n)", "all": "collect_list(t)", "set": "collect_set(f)",
    "said": "string_agg(k, '-')", "share": "sum(n) FILTER (WHERE b) / count()",
}  # fmt: skip
AS_OF = {"left": "l", "right": "r", "on": ["k"], "within_s": 3, "kind": "left"}
UNNEST = {"column": "l", "into": None, "position": "at", "keep_empty": False}
TUMBLING, SLIDING, SESSIONS = {"size_s": 4, "slide_s": 4}, {"size_s": 5, "slide_s": 2}, {"gap_s": 2}
DAYS = {"calendar": "day", "zone": "Europe/Vienna", "offset_s": 3605}


def aggregate(emit: str, key: list[str], window: Any = None, **more: str) -> dict[str, Any]:
    return {
        "aggregate": TOTALS if emit == "each" else TOTALS | SKETCHES,
        "key": key,
        "window": window,
        "emit": emit,
        **more,
    }


def join(kind: str, within_s: int | None = 2, **more: Any) -> dict[str, Any]:
    sides = {"left": "l", "right": "r", "on": ["k"], "within_s": within_s, "kind": kind}
    return {"join": sides | more, "late": "topic"}


class HashOrdered(PythonOperator):
    """Impure: its rows come in the order of a set."""

    output = {"host": "string"}  # noqa: RUF012 - as users write it

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        return pl.DataFrame({"host": list(set(batch["host"].to_list()))}, schema={"host": pl.String})


SEVERAL = Stream(
    {"output": "string", "a.n": "int?", "a.k": "string?", "b.f": "float?"},
    outputs={"a": {"n": "int?", "k": "string?"}, "b": {"f": "float?"}},
)
CASES: dict[str, tuple[str, dict[str, Any], list[Stream]]] = {
    "filter": ("filter", {"filter": "CAST(k AS INT) > 0 OR n / f > 1"}, [Stream(FIELDS)]),
    "one_of": ("filter", {"filter": "k", "one_of": ["a", "b", "1"]}, [Stream(FIELDS)]),
    "select": ("select", {"select": ["k", "CAST(k AS INT) AS i", "n / f AS q", "upper(k) AS u"]}, [Stream(FIELDS)]),
    "updates": ("aggregate", aggregate("updates", ["k", "b"]), [Stream(FIELDS)]),
    "final": ("aggregate", aggregate("final", []), [Stream(FIELDS)]),
    "each": ("aggregate", aggregate("each", ["k"]), [Stream(FIELDS)]),
    "tumbling": ("aggregate", aggregate("final", ["k"], TUMBLING, late="topic"), [Stream(FIELDS)]),
    "sliding": ("aggregate", aggregate("final", ["host"], SLIDING), [Stream(FIELDS)]),
    "sliding updates": ("aggregate", aggregate("updates", ["k"], SLIDING, late="topic"), [Stream(FIELDS)]),
    "sessions": ("aggregate", aggregate("final", ["k", "b"], SESSIONS, late="topic"), [Stream(FIELDS)]),
    "cumulative": ("aggregate", aggregate("final", ["k"], {"size_s": 6, "step_s": 2}), [Stream(FIELDS)]),
    "days": ("aggregate", aggregate("updates", ["k"], DAYS), [Stream(FIELDS)]),
    "inner join": ("join", join("inner"), [Stream(FIELDS), Stream(RIGHT)]),
    "left join": ("join", join("left"), [Stream(FIELDS), Stream(RIGHT)]),
    "full join": ("join", join("full", None, between=[-1, 3]), [Stream(FIELDS), Stream(RIGHT)]),
    "semi join": ("join", join("semi", None, between=[0, 4]), [Stream(FIELDS), Stream(RIGHT)]),
    "inner join with a table": ("join", join("inner", None), [Stream(FIELDS), TABLE]),
    "rows that are not in a table": ("join", join("anti", None), [Stream(FIELDS), TABLE]),
    "left join with a table": ("join", join("left", None), [Stream(FIELDS), TABLE]),
    "tables": ("join", join("left", None, emit="updates"), [Stream({**FIELDS, DELETED: "bool?"}, ("n",)), TABLE]),
    "totals with a table": ("join", join("full", None, emit="updates"), [Stream({**FIELDS}, ("k",)), TABLE]),
    "an output of several": ("output", {"output": "a"}, [SEVERAL]),
    "top": ("top", {"top": {"k": 2, "by": "f"}}, [Stream(FIELDS)]),
    "top of totals": ("top", {"top": {"k": 2, "by": "n"}}, [Stream({"k": "string?", "n": "int?"}, ("k",))]),
    "as-of join": ("asof_join", {"asof_join": AS_OF, "late": "topic"}, [Stream(FIELDS), Stream(RIGHT)]),
    "top by key": ("top", {"top": {"k": 1, "by": "f", "order": "ascending"}, "key": ["b"]}, [Stream(FIELDS)]),
    "top that ends": ("top", {"top": {"k": 2, "by": "f"}, "key": ["b"], "forget_after_s": 3}, [Stream(FIELDS)]),
    "top of windows": ("top", {"top": {"k": 2, "by": "n"}}, [WINDOWED]),
    "dedup": ("dedup", {"dedup": {"within_s": 2}, "key": ["k"], "late": "topic"}, [Stream(FIELDS)]),
    "dedup by floats": ("dedup", {"dedup": {"within_s": 3}, "key": ["f", "b"]}, [Stream(FIELDS)]),
    "pace": ("pace", {"pace": {"every_s": 3}}, [Stream(FIELDS, ("k", "f"))]),
    "unnest": ("unnest", {"unnest": UNNEST}, [Stream({**FIELDS, "l": "list<float?>?"})]),
    "unnest of a map": (
        "unnest",
        {"unnest": UNNEST | {"column": "m"}},
        [Stream({**FIELDS, "m": "map<string, int?>?"})],
    ),
    "select of maps": (
        "select",
        {"select": ["m", "m[k] AS v", "MAP_FROM_LISTS(ARRAY[host, k], ARRAY[id, n]) AS made", "MAP_KEYS(m) AS keys"]},
        [Stream({**FIELDS, "m": "map<string, int?>?"})],
    ),
    "union of unlike streams": ("union", {"union": ["l", "r"], "fill_missing": True}, [Stream(FIELDS), Stream(RIGHT)]),
    "union": ("union", {"union": ["l", "r"]}, [Stream(FIELDS), Stream(FIELDS)]),
    "python": ("python", {"python": "tests.golden.sessions:Gaps", "key": ["src"], "params": {}}, [Stream(FIELDS)]),
    "python on watermarks": (
        "python",
        {"python": "tests.golden.sessions:Visits", "key": ["host"], "params": {"gap_s": 2}},
        [Stream(FIELDS)],
    ),
    "python with timers": (
        "python",
        {"python": "tests.golden.sessions:Quiet", "key": ["src"], "params": {"after_s": 2, "every_s": 3}},
        [Stream(FIELDS)],
    ),
}
IMPURE = ("python", {"python": f"{__name__}:HashOrdered", "key": [], "params": {}}, [Stream(FIELDS)])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "k": st.sampled_from([None, "", "1", "-7", "a", "ä"]),
    "n": st.none() | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    "f": st.none() | st.sampled_from([0.0, -0.0, 0.1, 0.2, 1e17]) | st.floats(),
    "d": st.none() | st.decimals(-(10**17), 10**17, places=2, allow_nan=False),
    "b": st.none() | st.booleans(),
    "t": st.none() | st.datetimes(datetime(1960, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    "id": st.integers(0, 99),
    "src": st.integers(0, 3),
    "host": st.sampled_from(["a.example", "b.example", "c.example", "d.example"]),
    "other": st.none() | st.floats(),
    "l": st.none() | st.lists(st.none() | st.floats(), max_size=3),
    "m": st.none() | st.dictionaries(st.sampled_from(["", "1", "a", "ä"]), st.none() | st.integers(-3, 3)).map(entries),
    DELETED: st.sampled_from([None, None, True]),
}
VALUES |= {"output": st.sampled_from("ab"), "a.n": VALUES["n"], "a.k": VALUES["k"], "b.f": VALUES["f"]}


def values(stream: Stream) -> st.SearchStrategy[Rows]:
    """Rows of one slot in one batch, their times within some seconds."""
    columns = {name: VALUES[name] for name in stream.fields if name in VALUES}
    if "k" in columns and not stream.fields["k"].endswith("?"):
        columns |= {"k": st.sampled_from("abc"), "n": st.integers(-3, 3)}
    if stream.windowed:
        start = datetime(1970, 1, 1, tzinfo=UTC)
        columns |= {"window_start": st.just(start), "window_end": st.just(start.replace(second=4))}
    times = st.just(4_000_000) if stream.windowed else st.integers(0, 12_000_000)
    return st.lists(st.fixed_dictionaries({**columns, "_time": times}), max_size=8)


@pytest.fixture(scope="module")
def other() -> Iterator[OtherProcess]:
    process = OtherProcess(hash_seed=4321)
    yield process
    process.close()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@examples(each_run=4, with_long=60)
@given(data=st.data())
def test_the_payloads_are_the_same_in_another_process_and_after_restores(
    other: OtherProcess, case: str, data: st.DataObject
) -> None:
    kind, params, inputs = CASES[case]
    batches = data.draw(st.lists(st.tuples(*map(values, inputs)), min_size=1, max_size=4))
    here = operator_sends(kind, params, inputs, batches, restore=False)
    there = other.call(operator_sends, kind, params, inputs, batches, True)
    if here != there:
        assert here == operator_sends(kind, params, inputs, batches, restore=True), "restored at every batch"
    assert here == there, "in another process"


def test_every_operator_of_the_catalogue_is_tried() -> None:
    assert {kind for kind, *_ in CASES.values()} == {name for name, kind in KINDS.items() if kind.computed}


@pytest.mark.slow
def test_an_operator_that_looks_at_hashes_is_found_out(other: OtherProcess) -> None:
    """So many texts lie in one order under two hash seeds once in more runs than anybody makes."""
    hosts: Rows = [
        {name: None for name in "knfdbt"} | {"id": 0, "src": 0, "host": f"{i}", "_time": 0} for i in range(99)
    ]
    found = [call(*IMPURE, [[hosts]], False) for call in (operator_sends, partial(other.call, operator_sends))]
    assert found[0] != found[1]
