"""A sink's topic with fewer replicas than it asks for: the rows wait, a person sees why, and none is lost or twice."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.worker.sinks.refusals import MOST_REFUSALS
from tests.support.cluster import LocalCluster, running
from tests.support.commands import DEADLINE_S

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1200)]
JOB = """
name: kept
sources: {s: {topic: given, fields: {id: int}}}
fault_tolerance: {default: {scheme: none}}
queries: {all: {input: s, sink: {topic: found}}}
"""
SAID_S = 60.0
"""Three brokers need up to 40 s to give up one that is frozen; then the library tries for 4 s, and status waits 3 s."""


def brokers(site: LocalCluster) -> list[int]:
    """Processes of the brokers."""
    found = []
    for number in site.processes():
        words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        if b"kafka.Kafka" in words:
            found.append(number)
    return found


@contextmanager
def frozen(process: int) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def given(*numbers: int) -> list[bytes]:
    return [json.dumps({"id": number}).encode() for number in numbers]


def test_rows_wait_for_replicas_which_status_says_and_come_once(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    three = LocalCluster(tmp_path / "cluster", {"HOLDFAST_BROKERS": "3"}, deadline_s=3 * DEADLINE_S)
    with running(three) as site:
        site.log.create([TopicSpec("given"), TopicSpec("found", config={"min.insync.replicas": "3"})])
        site.call("submit", str(tmp_path / "job.yaml"), "--timeout", f"{DEADLINE_S:g}")
        site.append("given", *given(*range(10)))
        assert [row["id"] for row in site.results("kept", 10)] == list(range(10))
        processes = brokers(site)
        assert len(processes) == 3
        with frozen(processes[0]):
            began = monotonic()
            site.append("given", *given(*range(10, 20)))

            def attempts() -> int:
                said = [one.detail for one in site.events("delivery-stands-still", "delivery-refused")]
                return max((int(one.split(" in ")[1].split()[0]) for one in said if " attempts" in one), default=0)

            site.until(lambda: site.events("delivery-stands-still"), "an event says that nothing is delivered")
            assert monotonic() - began < SAID_S
            short = "topic found has 2 replicas in sync and takes rows from 3 on (its min.insync.replicas)"
            site.until(lambda: short in " ".join(site.told("status", "kept").split()), "status says why")
            site.until(lambda: attempts() > MOST_REFUSALS, "it is tried more often than what Kafka refuses")
        assert [row["id"] for row in site.results("kept", 20)] == list(range(20))
        (replayed,) = site.lines("replay", "kept", "--json")
        assert (replayed["results"], replayed["lost"], replayed["wrong"], replayed["duplicated"]) == (20, 0, 0, 0)
        assert site.state("kept") == "running"
        assert not list(site.log.scan(Partition(site.topics_of("kept").dead_letters, 0)))
