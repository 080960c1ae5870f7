"""A job of maps in memory: JSON in, through SQL, an operator of Python and a restore, JSON out; and where maps end."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from holdfast import Context, Job, PythonOperator, State, dicts_of, map_column
from holdfast.services.controller.spark_analysis import Describer
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.kernel.operators.user_output import OutputError, OutputShape
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from holdfast.testing import JobRun

SOURCE = {"topic": "visits", "fields": {"who": "string", "tags": "map<string, int>?"}}
TAGS: list[Any] = [{"b": 2, "a": 1}, {}, None, {"ä": 3, "$": 4, "": 5, 'q"': 6}]


class Doubled(PythonOperator):
    output = {"who": "string", "tags": "map<string, int>?"}  # noqa: RUF012 - as users write it

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        found = [None if one is None else {key: 2 * v for key, v in one.items()} for one in dicts_of(batch["tags"])]
        return batch.select("who").with_columns(tags=map_column(found, "map<string, int>"))


def job(**sink: Any) -> dict[str, Any]:
    return {
        "name": "visits",
        "sources": {"visits": SOURCE},
        "operators": {
            "pairs": {"sql": "SELECT who, t.k, t.v FROM visits CROSS JOIN UNNEST(tags) AS t(k, v)"},
            "entries": {"sql": "SELECT v.who, e.key AS k FROM visits v CROSS JOIN UNNEST(v.tags) AS t(e)"},
            "parts": {"sql": "SELECT who, tags['a'] AS a, MAP_KEYS(tags) AS keys, tags FROM visits"},
            "doubled": {"python": f"{__name__}:Doubled", "input": "visits"},
        },
        "queries": {
            name: {"input": name, "sink": {"topic": name, **sink}} for name in ("entries", "parts", "doubled", "pairs")
        },
    }  # fmt: skip


@pytest.mark.parametrize("format", ["json", "avro", "protobuf", "json-schema"])
def test_a_job_takes_maps_in_and_gives_them_out_also_after_a_restore(format: str) -> None:
    run = JobRun(Job.model_validate(job() if format == "json" else job(format=format, schema_id=1)))
    run.feed("visits", [{"who": str(place), "tags": tags} for place, tags in enumerate(TAGS[:2])])
    run.kill()
    run.restore()
    run.feed("visits", [{"who": str(place + 2), "tags": tags} for place, tags in enumerate(TAGS[2:])])
    run.finish()
    assert run.dead_letters.height == 0
    run.expect("doubled", [
        {"who": str(place), "tags": None if tags is None else {key: 2 * v for key, v in tags.items()}}
        for place, tags in enumerate(TAGS)
    ])  # fmt: skip
    run.expect("parts", [
        {"who": str(place), "a": (tags or {}).get("a"), "keys": None if tags is None else sorted(tags),
         "tags": tags}
        for place, tags in enumerate(TAGS)
    ])  # fmt: skip
    flat = [(str(place), key, value) for place, tags in enumerate(TAGS) for key, value in (tags or {}).items()]
    run.expect("pairs", [{"who": who, "k": key, "v": value} for who, key, value in flat])
    run.expect("entries", [{"who": who, "k": key} for who, key, _ in flat])


def problems(source: dict[str, Any], sink: dict[str, Any]) -> list[str]:
    raw = {
        "name": "visits",
        "sources": {"visits": SOURCE | source},
        "operators": {"parts": {"select": ["who", "tags"], "input": "visits"}},
        "queries": {"parts": {"input": "parts", "sink": sink}},
    }
    return [str(one) for one in check(interpret(raw), []).problems]


@pytest.mark.parametrize("sink", [{"topic": "parts", "format": "arrow"}, {"parquet": {"path": "/f"}}])
def test_a_sink_that_has_no_maps_names_the_list_that_it_has(sink: dict[str, Any]) -> None:
    (said,) = problems({}, sink)
    assert "MAP_ENTRIES(tags)" in said


def test_a_source_of_arrow_names_the_list_that_it_reads() -> None:
    (said,) = problems({"format": "arrow"}, {"topic": "parts"})
    assert "MAP_FROM_ENTRIES" in said


def test_rows_of_a_user_may_hold_entries_as_structs_and_no_null_key() -> None:
    shape = OutputShape({"m": "map<string, int>?"})
    rows = pl.DataFrame({"m": [[{"key": "b", "value": 1}, {"key": "a", "value": 2}, {"key": "b", "value": 3}], None]})
    assert dicts_of(shape.checked(rows, 0)["m"]) == [{"a": 2, "b": 3}, None]
    with pytest.raises(OutputError, match="a key that is null"):
        shape.checked(pl.DataFrame({"m": [[{"key": None, "value": 1}]]}, schema_overrides=None).cast(
            {"m": pl.List(pl.Struct({"key": pl.String(), "value": pl.Int64()}))}), 0)  # fmt: skip


def test_an_input_of_spark_with_a_map_is_refused_before_spark_is_asked() -> None:
    def ask(question: Any) -> Any:
        raise AssertionError("Spark is not asked")

    with pytest.raises(JobRejected, match="MAP_ENTRIES"):
        Describer(None, ask)("spark", {"spark": "module:function"}, [Stream({"tags": "list<map<string, int>>?"})])
