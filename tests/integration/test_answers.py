"""Awaited answers with real threads and a real Kafka: a killed leader, and a replay that asks nobody."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.schemas import cuts
from holdfast.schemas.cuts import Answered
from holdfast.schemas.topics import TopicSpec
from tests.support.cluster import LocalCluster, running
from tests.support.commands import DEADLINE_S

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PLUGIN = """
import asyncio
import uuid

import polars as pl

from holdfast import PythonOperator

class Named(PythonOperator):
    output = {"id": "int", "name": "string"}

    async def on_batch(self, batch, state, ctx):
        await asyncio.sleep(0.01)
        return batch.select("id", "_time").with_columns(name=pl.Series([uuid.uuid4().hex for _ in batch["id"]]))
"""
JOB = """
name: named
keep_cuts: true
sources: {s: {topic: named-in, fields: {id: int}}}
operators:
  named: {python: "naming_plugin:Named", input: s, ask: {rows: 10, timeout_s: 5}}
queries: {all: {input: named, sink: {topic: named-out}}}
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[LocalCluster]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "naming_plugin.py").write_text(PLUGIN)
    environment = {
        "PYTHONPATH": os.pathsep.join([str(plugins), os.environ.get("PYTHONPATH", "")]),
        "HOLDFAST_PLUGINS": "naming_plugin",
    }
    with running(LocalCluster(tmp_path / "cluster", environment), workers=2) as site:
        yield site


def test_a_killed_leader_leaves_each_row_with_one_answer_and_a_replay_asks_nobody(
    site: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "named.yaml").write_text(JOB)
    site.log.create([TopicSpec("named-in")])
    site.call("submit", str(tmp_path / "named.yaml"), "--create-topics", "--timeout", f"{DEADLINE_S:g}")
    for first in range(0, 400, 50):
        site.append("named-in", *(json.dumps({"id": number}).encode() for number in range(first, first + 50)))
        if first == 150:
            site.until(lambda: len(site.rows("named-out")) >= 50, "rows are out")
            (unit,) = [one for one in site.asked("units", "named") if one["unit"] == "named-0"]
            (leader,) = [copy["worker"] for copy in unit["copies"] if copy["state"] == "running"]
            site.kill(str(leader))
    site.until(lambda: len(site.rows("named-out")) >= 400, "every row is out")
    rows = site.rows("named-out")
    assert Counter(row["id"] for row in rows) == Counter(range(400)), "each once"
    records = [cuts.decode(value) for value in site.values(site.topics_of("named").cuts)]
    assert any(isinstance(one, Answered) and one.parts for one in records)
    site.call("replay", "named")
