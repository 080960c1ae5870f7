"""Sinks of tables in a job: their plan, and mistakes in them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.schemas.jobs import JobSpec
from holdfast.services.audit.replay import replay
from holdfast.services.client.local_run import complete
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.plans.soundness import unsound
from holdfast.services.planning import user_topics
from holdfast.services.planning.loader import load
from holdfast.services.worker.sinks import databases
from tests.unit.planning.test_files import JOB, plan_of, problems, through_a_kill

GOOD = "sink: {delete_when: n < 0, sql: {database: shop, table: public.delays, key: [k]}}"


def test_a_plan_names_the_table_and_no_topic() -> None:
    spec = load(JOB.replace("SINK", GOOD), "job.yaml")
    made = plan_of(spec)
    (sink,) = [one for one in made.operators if one.kind == "sink"]
    assert (sink.table, sink.elsewhere, sink.written_topic) == ("shop.public.delays", "table shop.public.delays", "")
    assert (sink.params["sql"]["key"], sink.params["delete_when"], sink.params["commit_interval_ms"]) == (
        ["k"],
        "n < 0",
        0,
    )
    assert (made.sink_partitions, user_topics.named(spec)) == ({}, {"s"})
    assert (unsound(made), made.warnings) == ("", ())
    torn = structs.replace(sink, params={**sink.params, "sql": {"database": "shop"}})
    assert "missing required field `table`" in unsound(structs.replace(made, operators=(made.operators[0], torn)))
    assert JobSpec.model_validate(spec.as_plain()) == spec


def test_a_local_run_shows_the_rows_and_writes_no_table() -> None:
    sink = complete(load(JOB.replace("SINK", GOOD), "job.yaml")).queries["q"].sink
    assert sink is not None
    assert (sink.sql, sink.topic) == (None, "query.q")


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("sink: {topic: t, sql: {database: d, table: t}}", "queries.q.sink.sql: is given, and a topic, too"),
        ("sink: {parquet: {path: /d}, sql: {database: d, table: t}}", "queries.q.sink.sql: is given, and files, too"),
        ("sink: {sql: {database: d, table: 't; DROP'}}", "sql.table: 't; DROP' is not a name of a table (letters"),
        ("sink: {sql: {database: d, table: Holdfast_Positions}}", "sql.table: is the table in which holdfast keeps"),
        ("sink: {sql: {database: d}}", "queries.q.sink.sql.table: is missing"),
        ("sink: {sql: {database: d, table: t, key: [kk]}}", "sql.key[0]: there is no column 'kk' (did you mean 'k'?)"),
        ("sink: {sql: {database: d, table: t, key: [f]}}", "sql.key[0]: 'f' is a float, which is no key"),
        ("sink: {sql: {database: d, table: t, key: [k, k]}}", "sql.key[1]: 'k' is named twice"),
        ("sink: {format: arrow, sql: {database: d, table: t}}", "sink.format: says how a row becomes a record"),
        ("sink: {key: k, sql: {database: d, table: t}}", "key: is the key of a record, and a table has none (sql: {k"),
        ("sink: {delete_when: n < 0, sql: {database: d, table: t}}", "sql.key: is missing: delete_when"),
        ("sink: {delete_when: m < 0, sql: {database: d, table: t, key: [k]}}", "queries.q.sink.delete_when: "),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place_and_what_to_do(sink: str, said: str) -> None:
    assert any(said in one for one in problems(sink)), problems(sink)


def test_a_nested_column_is_refused() -> None:
    job = JOB.replace("k: string", "k: string, l: list<int>").replace("SINK", "sink: {sql: {database: d, table: t}}")
    with pytest.raises(
        JobRejected, match=r"queries.q.sink.sql: column 'l' is a list<int>, for which tables have no type"
    ):
        plan_of(load(job, "job.yaml"))


def test_rows_that_come_again_without_a_key_are_warned_of() -> None:
    counts = (
        "operators: {c: {aggregate: {m: count()}, key: [k], emit: updates, input: s}}\nqueries: {q: {input: c, SINK}}"
    )
    job = JOB.partition("queries:")[0] + counts
    (warned,) = plan_of(load(job.replace("SINK", "sink: {sql: {database: d, table: t}}"), "job.yaml")).warnings
    assert warned == (
        "queries.q.sink.sql: rows of c come again with other values, and are appended one below the other; "
        "key: [k] keeps the newest of each"
    )
    assert (
        plan_of(load(job.replace("SINK", "sink: {sql: {database: d, table: t, key: [k]}}"), "job.yaml")).warnings == ()
    )


def test_rows_are_in_the_table_once_through_a_kill_and_a_replay_leaves_them_out(tmp_path: Path) -> None:
    named = tmp_path / "databases.toml"
    named.write_text(f'shop = "sqlite:///{tmp_path}/rows.db"\n')
    databases.use(str(named))
    rows = [{"n": n, "k": "k", "t": "1970-01-01T00:00:00Z", "f": 0.5} for n in range(6)]
    sinks = "sink: {sql: {database: shop, table: rows}}}, all: {input: s, sink: {topic: all}"
    cluster = through_a_kill(sinks, rows)
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        assert sorted(connection.execute("SELECT n FROM rows").fetchall()) == sorted((n % 6,) for n in range(12))
    report = replay(cluster.log, cluster.cluster, "numbers")
    assert (report.exact, report.rows.results) == (True, 12)
    assert "table shop.rows: the rows of q are there, not compared" in report.notes
