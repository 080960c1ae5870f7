"""Code in a process of its own that crashes: the copy begins again from its checkpoint, or fails with the records."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.schemas import events
from holdfast.schemas.assignments import Flags
from holdfast.schemas.topics import Partition
from tests.support.memory_cluster import MemoryCluster

pytestmark = pytest.mark.slow

JOB = """
name: obeying
sources: {in: {topic: in, fields: {key: string, n: int}}}
operators:
  kept: {filter: "n >= 0", input: in}
  obeyed: {python: "tests.support.isolated:Obeys", isolation: process, params: PARAMS, input: kept, key: [key]}
fault_tolerance: {default: {scheme: none}}
queries: {obeyed: {input: obeyed, sink: {topic: obeyed}}}
"""


@pytest.fixture
def made(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MemoryCluster]:
    """A worker that runs the job; once: a deed is done by the first process alone."""
    params = f"{{once: '{tmp_path / 'once'}'}}" if request.param == "once" else "{}"
    cluster = MemoryCluster(JOB.replace("PARAMS", params))
    worker = cluster.start("one")
    cluster.place({unit: [worker] for unit in cluster.units})
    cluster.turn(20)
    yield cluster
    cluster.place({unit: [] for unit in cluster.units})
    cluster.turn(20)


def happened(cluster: MemoryCluster, kind: str) -> list[str]:
    records = cluster.log.scan(Partition(cluster.cluster.events, 0))
    found = [events.decode(record.value() or b"") for record in records]
    return [event.detail for event in found if event.kind == kind]


@pytest.mark.parametrize("made", ["once"], indirect=True)
def test_a_crash_costs_no_row_and_none_is_doubled(made: MemoryCluster) -> None:
    keys = [f"k{number}" for number in range(20)]
    for number, key in enumerate(keys):
        made.feed("in", [{"key": key, "n": number}])
        if number == 10:
            made.feed("in", [{"key": "exits", "n": 1}])
        made.turn(10)
    made.run_to_end()
    assert [row["key"] for row in made.rows("obeyed")] == [*keys[:11], "exits", *keys[11:]]
    (crash,) = happened(made, "code-crashed")
    assert "obeyed-0 ended with status 3, in batch" in crash


@pytest.mark.parametrize("made", ["always"], indirect=True)
def test_a_process_that_ends_at_rest_is_replaced_before_the_next_batch(made: MemoryCluster) -> None:
    def pid() -> int:
        return int(made.rows("obeyed")[-1]["note"])

    made.feed("in", [{"key": "pid", "n": 1}])
    made.until(lambda: len(made.rows("obeyed")) == 1)
    first = pid()
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)  # on a busy machine its end takes longer than all our turns
    made.until(lambda: len(happened(made, "code-crashed")) == 1)
    made.turn(100)
    assert happened(made, "code-crashed") == ["the process of the code of obeyed-0 ended while it rested"]
    made.feed("in", [{"key": "pid", "n": 2}])
    made.until(lambda: len(made.rows("obeyed")) == 2)
    assert pid() != first
    assert len(happened(made, "code-crashed")) == 1


@pytest.mark.parametrize("made", ["always"], indirect=True)
def test_a_takeover_finds_the_standby_s_process_ready(made: MemoryCluster) -> None:
    def pids(worker: str) -> list[int]:
        return [pid for copy in made.workers[worker]._copies.here.values() for pid in copy._effects.code.pids.values()]

    made.feed("in", [{"key": "pid", "n": 1}])
    made.until(lambda: len(made.rows("obeyed")) == 1)
    two, empty = made.start("two"), Flags(receive=False, process=False, send=False, commit=False, state="virgin")
    made.place({unit: [made.workers["one"], (two, empty)] for unit in made.units})
    made.until(lambda: all(copy.state == "deployed" for copy in two.copies()) and bool(two.copies()))
    (ready,) = pids("two")
    made.kill("one")
    made.place({unit: [two] for unit in made.units})
    made.feed("in", [{"key": "pid", "n": 2}])
    made.until(lambda: len(made.rows("obeyed")) == 2)
    assert made.rows("obeyed")[-1]["note"] == str(ready)


@pytest.mark.parametrize("made", ["always"], indirect=True)
def test_a_batch_that_ends_every_process_fails_the_copy_with_its_records(made: MemoryCluster) -> None:
    made.feed("in", [{"key": "a", "n": 1}])
    made.until(lambda: len(made.rows("obeyed")) == 1)
    made.feed("in", [{"key": "exits", "n": 1}])
    made.until(lambda: any(copy.state == "failed" for copy in made.workers["one"].copies()))
    assert len(happened(made, "code-crashed")) == 3
    failed = [copy.error for copy in made.workers["one"].copies() if copy.state == "failed"]
    assert len(failed) == 1
    assert "the process of the code of obeyed-0 ended with status 3, in batch" in failed[0]
    assert failed[0].endswith(", 3 times in a row; its records: in[0] 1-1")
