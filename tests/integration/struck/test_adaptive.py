"""An adaptive unit on a real cluster: its scheme follows its state, a drill and a kill are judged, rows are exact."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from schemas import commands, plans
from schemas.events import Event
from schemas.topics import Partition, TopicSpec
from services.audit.replaying import replay
from services.planning.loading import load
from services.recovery.core.unit.reasons import chosen_for_promise
from tests.support.commands import DEADLINE_S, LOOK_AGAIN_S
from tests.support.struck import Struck

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
JOB, UNIT = "grows", "words-0"
TEXT = """
name: grows
keep_cuts: true
sources:
  words: {topic: grows-words, fields: {k: string, text: string}, idle_after_s: 1}
operators:
  newest: {aggregate: {n: "count()", text: "last(text)"}, key: [k], input: words}
queries:
  newest: {input: newest, sink: {topic: grows-newest}}
fault_tolerance:
  default: {scheme: adaptive}
  recovery_time_ms: 2500
  cool_down_s: 2
"""
FROM_THE_LOG = {"passive", "deployed"}
"""Schemes under which a takeover reads the checkpoint log."""
WORD = 4_000
CHUNK = 250


class Growing:
    """The job. keys: fed so far, each with a text of its own."""

    def __init__(self, struck: Struck) -> None:
        self.struck, self.keys = struck, 0
        struck.cluster.log.create([TopicSpec("grows-words", 1), TopicSpec("grows-newest", 1)])
        struck.watch(JOB)
        struck.cluster.submit(commands.encode(load(TEXT, "job.yaml").as_plain()))

    def feed(self, new: bool) -> None:
        """Some records: of new keys, or of the first ones again."""
        first = self.keys if new else 0
        rows = ({"k": f"k{n}", "text": f"{n}-{os.urandom(WORD // 2).hex()}"} for n in range(first, first + CHUNK))
        few = ({"k": f"k{n}", "text": "short"} for n in range(5))
        self.struck.cluster.feed("grows-words", rows if new else few, partitions=1)
        self.keys += CHUNK if new else 0

    def until(self, what: str, condition: Any, new: bool = False, seconds: float = 2 * DEADLINE_S) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, "\n".join([what, *self.struck.told(), *map(str, self.told())])
            self.feed(new)
            time.sleep(LOOK_AGAIN_S)
        return found

    @property
    def scheme(self) -> str:
        return self.struck.schemes().get(UNIT, "")

    def told(self) -> Iterator[Event]:
        kinds = ("scheme-chosen", "promise-kept", "promise-broken")
        return (event for event in self.struck.events() if event.job == JOB and event.kind in kinds)

    def called(self, *words: str) -> Any:
        done = self.struck.command(*words, "--json")
        out, err = done.communicate(timeout=DEADLINE_S)
        assert done.returncode in (0, 1), err
        return json.loads(out)


def test_the_scheme_follows_the_state_and_takeovers_are_judged(struck: Struck) -> None:
    job = Growing(struck)
    job.until("it runs from its log", lambda: job.scheme in FROM_THE_LOG and struck.protected())
    first = job.scheme
    (explained,) = job.called("explain", JOB, UNIT)
    assert (explained["scheme"], explained["adaptive"], explained["promise_ms"]) == (first, True, 2500)
    assert {one["scheme"] for one in explained["alternatives"]} >= {"none", "passive", "hybrid", "active-replication"}
    job.until("its state is kept elsewhere", lambda: job.scheme not in FROM_THE_LOG and struck.protected(), new=True)
    chosen = [event for event in job.told() if event.kind == "scheme-chosen"]
    assert first in {event.alternatives[0].scheme for event in chosen}
    rejected = {one.scheme: one.rejected for one in chosen[-1].alternatives}
    assert "more than the promise" in rejected["passive"]
    assert all(len(event.alternatives) == 8 for event in chosen)
    job.until("it rests", struck.protected)
    drilled = job.called("drill", JOB, UNIT)
    assert drilled["promise_ms"] == 2500
    assert drilled["predicted_ms"].keys() == drilled["actual_ms"].keys()
    assert drilled["worker"] == struck.leader_of(UNIT)
    job.until("it is protected after the drill", struck.protected)
    struck.kill(struck.leader_of(UNIT))
    judged = ("promise-kept", "promise-broken")
    job.until("the kill is judged", lambda: sum(event.kind in judged for event in job.told()) >= 2)
    job.until("it is protected after the kill", struck.protected)
    changes = [change for _, change in struck.history[UNIT]]
    times = [event.time_ms for event in chosen]
    assert all(after - before >= 1_900 for before, after in pairwise(times)), "one change a cool-down"
    assert any(chosen_for_promise(change) for change in changes)
    struck.cluster.drain(JOB)
    report = replay(struck.cluster.log, struck.cluster.topics, JOB)
    assert report.exact, report
    rows = [json.loads(m.value() or b"") for m in struck.cluster.log.scan(Partition("grows-newest", 0))]
    assert len({row["k"] for row in rows}) == job.keys
    assert [one for one in struck.cluster.decisions() if isinstance(one, plans.Ended) and one.job == JOB]
