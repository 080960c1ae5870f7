"""An adaptive unit on a real cluster: its scheme is chosen, a drill and a kill are judged, rows are exact.

How the scheme follows state and load: tests/unit/recovery/test_adaptive.py. A machine keeps the promise here under any
load, so the test asks nothing of the machine.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from holdfast.schemas import commands, plans
from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.audit.replay import replay
from holdfast.services.planning.loader import load
from holdfast.services.recovery.core.unit.table.reasons import chosen_for_promise
from tests.support.commands import DEADLINE_S, until
from tests.support.struck import Struck

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
JOB, UNIT = "grows", "words-0"
JUDGED = ("promise-kept", "promise-broken")
TEXT = """
name: grows
keep_cuts: true
sources:
  words: {topic: grows-words, fields: {k: string, n: int}, idle_after_s: 1}
operators:
  newest: {aggregate: {n: "count()", last: "last(n)"}, key: [k], input: words}
queries:
  newest: {input: newest, sink: {topic: grows-newest}}
fault_tolerance:
  default: {scheme: adaptive}
  recovery_time_ms: 20000
  cool_down_s: 1
"""
KEYS = 50


class Chosen:
    """The job. fed: records so far."""

    def __init__(self, struck: Struck) -> None:
        self.struck, self.fed = struck, 0
        struck.cluster.log.create([TopicSpec("grows-words", 1), TopicSpec("grows-newest", 1)])
        struck.watch(JOB)
        struck.cluster.submit(commands.encode(load(TEXT, "job.yaml").as_plain()))

    def until(self, what: str, condition: Any) -> Any:
        """Under load."""

        def found() -> Any:
            seen = condition()
            if not seen:
                self._feed()
            return seen

        try:
            return until(found, what)
        except AssertionError:
            print(*self.struck.told(), *self.told(), sep="\n")
            raise

    def _feed(self) -> None:
        rows = ({"k": f"k{n % KEYS}", "n": n} for n in range(self.fed, self.fed + KEYS))
        self.struck.cluster.feed("grows-words", rows, partitions=1)
        self.fed += KEYS

    @property
    def scheme(self) -> str:
        return self.struck.schemes().get(UNIT, "")

    def told(self, *kinds: str) -> list[Event]:
        kinds = kinds or ("scheme-chosen", *JUDGED)
        return [event for event in self.struck.events() if event.job == JOB and event.kind in kinds]

    def called(self, *words: str) -> Any:
        done = self.struck.command(*words, "--json")
        out, err = done.communicate(timeout=DEADLINE_S)
        assert done.returncode in (0, 1), err
        return json.loads(out)


def test_the_scheme_is_chosen_and_takeovers_are_judged(struck: Struck) -> None:
    job = Chosen(struck)
    job.until("it has the cheapest scheme", lambda: job.scheme == "passive" and struck.protected())
    (explained,) = job.called("explain", JOB, UNIT)
    assert (explained["scheme"], explained["adaptive"], explained["promise_ms"]) == ("passive", True, 20_000)
    assert {one["scheme"] for one in explained["alternatives"]} >= {"none", "passive", "hybrid", "active-replication"}
    chosen = job.told("scheme-chosen")
    assert chosen[-1].alternatives[0].scheme == "passive"
    assert all(len(event.alternatives) == 8 for event in chosen)
    drilled = job.called("drill", JOB, UNIT)
    assert drilled["promise_ms"] == 20_000
    assert drilled["predicted_ms"].keys() == drilled["actual_ms"].keys()
    assert drilled["worker"] == struck.leader_of(UNIT)
    job.until("it is protected after the drill", struck.protected)
    epoch = struck.change(UNIT).epoch
    struck.kill(struck.leader_of(UNIT))
    job.until("the kill is judged", lambda: any(event.epoch > epoch for event in job.told(*JUDGED)))
    job.until("it is protected after the kill", struck.protected)
    assert {event.kind for event in job.told(*JUDGED)} == {"promise-kept"}
    times = [event.time_ms for event in job.told("scheme-chosen")]
    assert all(after - before >= 900 for before, after in pairwise(times)), "one change a cool-down"
    assert any(chosen_for_promise(change) for _, change in struck.history[UNIT])
    struck.cluster.drain(JOB)
    report = replay(struck.cluster.log, struck.cluster.topics, JOB)
    assert report.exact, report
    rows = [json.loads(m.value() or b"") for m in struck.cluster.log.scan(Partition("grows-newest", 0))]
    assert len({row["k"] for row in rows}) == KEYS
    assert [one for one in struck.cluster.decisions() if isinstance(one, plans.Ended) and one.job == JOB]
