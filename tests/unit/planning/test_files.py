"""Sinks of Parquet files in a job: their plan, and mistakes in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from msgspec import structs

from holdfast.schemas.delivered import Delivered, decode, encode
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Plan
from holdfast.services.audit.replay import replay
from holdfast.services.client.local_run import complete
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.plans.soundness import unsound
from holdfast.services.planning import user_topics
from holdfast.services.planning.loader import load
from holdfast.services.worker.sinks import folders
from tests.support.memory_cluster import MemoryCluster
from tests.unit.planning.jobs import plan

JOB = """
name: numbers
sources: {s: {topic: s, fields: {n: int, k: string, t: timestamp, f: float}, event_time: t}}
queries: {q: {input: s, SINK}}
"""
GOOD = "sink: {parquet: {path: /data/out, partition_by: [k]}}"


def plan_of(spec: JobSpec) -> Plan:
    return plan(spec.as_plain(), {"s": 1, "t": 1})


def through_a_kill(sinks: str, rows: list[dict[str, Any]]) -> MemoryCluster:
    """The job's cluster at its end: it was fed the rows twice, before and after the kill of its worker."""
    cluster = MemoryCluster(json.dumps(load(JOB.replace("SINK", sinks), "job.yaml").as_plain()))
    cluster.place({unit: [cluster.start("w1")] for unit in cluster.units})
    cluster.feed("s", rows)
    cluster.turn(60)
    cluster.kill("w1")
    cluster.place({unit: [cluster.start("w2")] for unit in cluster.units})
    cluster.feed("s", rows)
    cluster.run_to_end()
    return cluster


def problems(sink: str) -> list[str]:
    with pytest.raises(JobRejected) as rejected:
        plan_of(load(JOB.replace("SINK", sink), "job.yaml"))
    return [f"{one.path}: {one.message} ({one.hint})" for one in rejected.value.problems]


def test_a_plan_names_the_folder_and_no_topic_and_gathers_rows_for_ten_seconds() -> None:
    spec = load(JOB.replace("SINK", GOOD), "job.yaml")
    made = plan_of(spec)
    (sink,) = [one for one in made.operators if one.kind == "sink"]
    assert (sink.folder, sink.written_topic) == ("/data/out", "")
    assert (sink.params["commit_interval_ms"], sink.params["parquet"]["partition_by"]) == (10_000, ["k"])
    assert (made.sink_partitions, user_topics.named(spec)) == ({}, {"s"})
    assert unsound(made) == ""
    torn = structs.replace(sink, params={**sink.params, "parquet": {"path": 1}})
    assert "Expected `str`, got `int`" in unsound(structs.replace(made, operators=(made.operators[0], torn)))
    assert JobSpec.model_validate(spec.as_plain()) == spec


def test_a_local_run_shows_the_rows_and_writes_no_file() -> None:
    sink = complete(load(JOB.replace("SINK", GOOD), "job.yaml")).queries["q"].sink
    assert sink is not None
    assert (sink.parquet, sink.topic, sink.commit_interval_ms) == (None, "query.q", 0)


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("sink: {parquet: {path: out}}", "'out' is not an absolute path without .. (such as /data/delays)"),
        ("sink: {parquet: {path: /data/../etc}}", "is not an absolute path without .."),
        ("sink: {topic: t, parquet: {path: /data}}", "queries.q.sink.parquet: are given, and a topic, too"),
        ("sink: {parquet: {path: /data, partition_by: [m]}}", "partition_by[0]: there is no column 'm'"),
        ("sink: {parquet: {path: /data, partition_by: [k, k]}}", "partition_by[1]: 'k' is named twice"),
        (
            "sink: {parquet: {path: /data, partition_by: [f]}}",
            "'f' is a float, which names no folder (a column of type",
        ),
        ("sink: {format: arrow, parquet: {path: /data}}", "queries.q.sink.format: says how a row becomes a record"),
        (f"{GOOD}}}, p: {{input: s, {GOOD}", "queries.p.sink.parquet.path: is the folder of query q, too (one folder"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_to_do(sink: str, said: str) -> None:
    assert any(said in one for one in problems(sink)), problems(sink)


def test_rows_of_files_are_never_tentative_and_the_check_says_so() -> None:
    warned = plan_of(load(JOB.replace("SINK", f"results: tentative, {GOOD}"), "job.yaml")).warnings
    assert any("a row in a file is there for good" in one for one in warned)


def test_files_beside_another_sink_are_a_unit_of_their_own() -> None:
    both = f"{GOOD}}}, p: {{input: s, sink: {{topic: t}}}}, r: {{input: s, sink: {{sql: {{database: d, table: t}}}}"
    made = plan_of(load(JOB.replace("SINK", both), "job.yaml"))
    assert {unit.operators for unit in made.units} == {("s", "sink-p"), ("sink-q",), ("sink-r",)}
    assert made.warnings == ()
    assert [unit.operators for unit in plan_of(load(JOB.replace("SINK", GOOD), "job.yaml")).units] == [("s", "sink-q")]


def test_a_query_beside_files_that_commits_sooner_is_named_where_the_placement_wants_it_there() -> None:
    both = f"{GOOD}}}, p: {{input: s, sink: {{topic: t, commit_interval_ms: 500}}"
    placed = JOB.replace("SINK", both) + "placement: {units: [[s, q, p]]}\n"
    (warned,) = plan_of(load(placed, "job.yaml")).warnings
    assert warned == (
        "queries.q.sink.parquet: query p lies in the same unit and commits every 500 ms, so files are made as often; "
        "a larger commit_interval_ms of p makes larger ones"
    )


def test_a_position_without_files_is_written_as_before() -> None:
    plain: dict[str, Any] = msgspec.json.decode(encode(Delivered("u", 3, 1)))
    assert set(plain) == {"unit", "batch", "epoch"}
    with_files = Delivered("u", 3, 1, staged={"sink-q-0": "3-00"})
    assert decode(encode(with_files)) == with_files


def test_rows_are_in_files_once_through_a_kill_and_a_replay_leaves_them_out(tmp_path: Path) -> None:
    folders.allow(str(tmp_path))
    rows = [{"n": n, "k": "k" * (n % 2 * 300), "t": "1970-01-01T00:00:00Z", "f": 0.5} for n in range(6)]
    sinks = f"sink: {{parquet: {{path: {tmp_path}/out, partition_by: [k]}}}}}}, all: {{input: s, sink: {{topic: all}}"
    cluster = through_a_kill(sinks, rows)
    assert sorted(pl.read_parquet(tmp_path / "out" / "*" / "*.parquet")["n"].to_list()) == [0, 0, 2, 2, 4, 4]
    report = replay(cluster.log, cluster.cluster, "numbers")
    assert (report.exact, report.rows.results) == (True, 12)
    assert f"{tmp_path}/out: the rows of q are files, not compared" in report.notes
