"""A leader with another version of a user's code dies: its successor skips the rows that the log says, each once."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.schemas import cuts
from holdfast.schemas.cuts import CutRecord, Leads, Raised
from holdfast.schemas.topics import TopicSpec
from tests.support.cluster import LocalCluster, running
from tests.support.commands import DEADLINE_S

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PLUGIN = """
from pathlib import Path
import polars as pl
from holdfast import PythonOperator

STRICT = (Path(__file__).parent / "strict").exists()  # of the version that this process has loaded

class Fussy(PythonOperator):
    output = {"id": "int", "nth": "int"}

    def on_batch(self, batch, state, ctx):
        table, places = state.table("seen"), []
        for number in batch["id"]:
            if number % 10 == 0 or (STRICT and number % 7 == 0):
                raise ValueError(f"{number} is refused")
            table.put("all", table.get("all", 0) + 1)
            places.append(table.get("all"))
        return batch.select("id", "_time").with_columns(pl.Series("nth", places, dtype=pl.Int64))
"""
JOB = """
name: fussy
keep_cuts: true
sources: {s: {topic: fussy-in, fields: {id: int}}}
operators:
  even: {filter: "id >= 0", input: s}
  fussy: {python: "fussy_plugin:Fussy", key: [id], input: even, parallelism: 1}
queries: {all: {input: fussy, sink: {topic: fussy-out}}}
placement: {units: [[s, even], [fussy]]}
fault_tolerance: {default: {scheme: passive-hot}, fail_stop_timeout_s: 300, checkpoint: {interval_ms: 60000}}
"""
"""No checkpoint comes between: a successor does every batch again."""


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "fussy_plugin.py").write_text(PLUGIN)
    return folder


@pytest.fixture
def site(tmp_path: Path, plugins: Path) -> Iterator[LocalCluster]:
    environment = {
        "PYTHONPATH": os.pathsep.join([str(plugins), os.environ.get("PYTHONPATH", "")]),
        "HOLDFAST_PLUGINS": "fussy_plugin",
        "HOLDFAST_BALANCE_CALM_S": "0",
    }
    with running(LocalCluster(tmp_path / "cluster", environment), workers=2) as site:
        yield site


def copies(site: LocalCluster) -> dict[str, str]:
    """The workers of the unit by role, once both copies are there."""

    def both() -> dict[str, str]:
        (unit,) = [one for one in site.asked("units", "fussy") if one["unit"] == "fussy-0"]
        found = {copy["role"]: copy for copy in unit["copies"]}
        ready = sorted(copy["state"] for copy in unit["copies"]) == ["running", "synced"]
        return {role: str(copy["worker"]) for role, copy in found.items()} if ready else {}

    found: dict[str, str] = site.until(both, "the unit has a leader and a standby")
    return found


def feed(site: LocalCluster, numbers: range) -> None:
    for first in range(numbers.start, numbers.stop, 20):
        some = range(first, min(first + 20, numbers.stop))
        site.append("fussy-in", *(json.dumps({"id": number}).encode() for number in some))


def records(site: LocalCluster) -> list[CutRecord]:
    return [cuts.decode(value) for value in site.values(site.topics_of("fussy").cuts)]


def letters(site: LocalCluster) -> Counter[int]:
    found = (json.loads(message.value() or b"") for message in site.log.scan(site.letters_of("fussy")))
    return Counter(json.loads(letter["row"])["id"] for letter in found)


@pytest.mark.long
def test_a_successor_with_another_version_skips_what_the_log_says(
    site: LocalCluster, plugins: Path, tmp_path: Path
) -> None:
    """In each run: scenario/test_versions.py holds it on a log in memory, and so do simulated histories."""
    (plugins / "strict").touch()
    (tmp_path / "fussy.yaml").write_text(JOB)
    site.log.create([TopicSpec("fussy-in")])
    site.call("submit", str(tmp_path / "fussy.yaml"), "--create-topics", "--timeout", f"{DEADLINE_S:g}")
    roles = copies(site)
    feed(site, range(200))
    site.await_taken_in("fussy", 200)
    (plugins / "strict").unlink()
    site.kill(roles["secondary"])
    roles = copies(site)
    feed(site, range(200, 300))
    site.await_taken_in("fussy", 300)
    site.until(lambda: any(one.batch for one in records(site) if isinstance(one, Raised)), "code has raised")
    site.kill(roles["primary"])
    copies(site)
    feed(site, range(300, 400))
    site.await_taken_in("fussy", 400)
    site.until(lambda: len(site.rows("fussy-out")) + letters(site).total() >= 400, "every number is out, or refused")
    refused, rows = letters(site), site.rows("fussy-out")
    assert refused + Counter(row["id"] for row in rows) == Counter(range(400)), "each once"
    assert {number for number in range(400) if number % 10 == 0} <= set(refused)
    assert {number for number in range(200) if number % 7 == 0} <= set(refused), "both were strict then"
    assert all(number % 10 == 0 or number % 7 == 0 for number in refused)
    assert sorted(row["nth"] for row in rows) == list(range(1, len(rows) + 1))
    said = records(site)
    leaders = [one for one in said if isinstance(one, Leads)]
    assert len({one.id.author for one in leaders}) > 1
    assert {one.lead for one in said if isinstance(one, Raised)} <= {one.id for one in leaders}
    assert "exact" in site.told("replay", "fussy")
