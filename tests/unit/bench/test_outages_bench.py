"""Outages that the bench plans, and what it says of those that it made."""

from __future__ import annotations

import random
from collections import Counter
from string import Template
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from bench.measures.permitted import CHAINS, COMPARED, COUNTS, FINAL, TENTATIVE, Kinds, over_final
from bench.outages.rows import Rows
from bench.outages.strikes import BROKER, FORK, FREEZE, KILL, UNIT, Outcome, counts, exact, left_of, report, rounds
from bench.outages.strikes import strikes as strikes_of
from bench.research.papers.p10w import HALF, NONE, P10W, SELDOM, TECHNIQUES
from bench.research.partial import FIRST, KEYS, MERGING, SOURCES, merges, record, recovered_ms
from bench.rig.jobs import tree
from holdfast.schemas.decided import Id
from holdfast.schemas.events import Event
from holdfast.schemas.plans import Plan
from holdfast.services.kernel.dataflow.sink_records import RowsOf
from holdfast.services.planning.loader import load
from holdfast.services.planning.plan import make_plan


def made(kind: str = UNIT, fault: str = KILL, first_ms: float = 300.0, **more: Any) -> Outcome:
    fields: dict[str, Any] = {"noted_ms": 50.0, "over_ms": 1_200.0, "closed_ms": 1_500.0, "tentative": 7, "closing": 1}
    return Outcome(kind, fault, ("a-0",), 0.5, first_ms=first_ms, **fields | more)


def test_a_quarter_strikes_the_worker_of_a_fork_and_a_tenth_the_broker() -> None:
    wanted = strikes_of(200)
    assert Counter(one.kind for one in wanted) == {FORK: 50, BROKER: 20, UNIT: 130}
    assert Counter(one.fault for one in wanted) == {KILL: 100, FREEZE: 100}


def test_outages_already_made_are_not_made_again_and_rounds_hold_the_others() -> None:
    wanted = strikes_of(20)
    left = left_of(wanted, [made(UNIT, KILL), made(FORK, FREEZE), made(FORK, FREEZE)])
    assert len(left) == 17
    found = rounds(left, 7, random.Random(0))
    assert [len(one) for one in found] == [7, 7, 3]
    assert Counter(one for some in found for one in some) == Counter(left)


def test_an_outage_without_tentative_rows_has_no_time_of_a_first_row() -> None:
    (row,) = report([made(first_ms=120.0), made(first_ms=-1.0, tentative=0), made(first_ms=240.0)])
    assert (row.times, row.with_rows, row.tentative) == (3, 2, 14)
    assert (row.first_ms, row.share) == (120.0, 0.1)
    assert made(first_ms=-1.0).recovered_share is None


def test_a_row_that_stays_tentative_is_no_exact_run() -> None:
    assert exact([made(), made(rows=9)])
    assert counts([made(), made(rows=9)]) == {
        "rows": 9, "lost": 0, "duplicated": 0, "wrong": 0, "open": 0, "untrue": 0, "tentative": 14, "closing": 2
    }  # fmt: skip
    assert not any(
        exact([made(**cast(dict[str, Any], {name: 1}))]) for name in ("lost", "duplicated", "wrong", "open", "untrue")
    )


def test_rows_count_what_is_open_and_where_a_reader_ends_with_another_row_than_the_final_one() -> None:
    class Nothing:
        def reader(self, name: str) -> Any:
            return SimpleNamespace(assign=lambda at: None)

        def offsets(self, partitions: Any, at: str) -> Any:
            return {}

    def message(key: bytes, value: bytes | None, status: str) -> Any:
        headers = [("job", b"j@0-aaaaaa"), ("query", b"q"), ("status", status.encode()), ("batch", b"3")]
        return SimpleNamespace(key=lambda: key, value=lambda: value, headers=lambda: headers)

    rows = Rows(cast(Any, Nothing()), "out", RowsOf("j", "0-aaaaaa", "q"))
    rows._take(message(b"a", b'{"window_end":1}', "tentative"), 10.0)
    rows._take(message(b"b", b'{"window_end":1}', "tentative"), 11.0)
    assert (rows.first_after(5.0), rows.first_after(10.5), rows.first_after(12.0)) == (10.0, 11.0, None)
    assert (rows.open, rows.untrue()) == (2, 2)
    assert rows.accuracy() is None, "nothing is final"
    rows._take(message(b"a", b'{"window_end":1}', "final"), 12.0)
    rows._take(message(b"b", None, "closing"), 12.0)
    assert (rows.open, rows.untrue(), rows.accuracy()) == (0, 0, 1.0)
    rows._take(message(b"c", b'{"window_end":1}', "final"), 12.0)
    rows._take(message(b"d", b'{"window_end":2}', "final"), 12.0)
    assert rows.accuracy() == 0.5, "of the windows that have tentative rows"
    assert rows.counts == {"tentative": 2, "final": 3, "closing": 1}


def planned(job: Template, **settings: object) -> Plan:
    text = job.substitute({"name": "x", "topic": "t", "tasks": 1} | settings)
    spec = load(text, "bench.yaml")
    unknown: dict[str, Any] = {"topics": None, "first": {}, "versions": {}, "allow": []}
    return make_plan(spec, generation="0-abcdef", id=Id("c", 1), prefix="t", **unknown)


def tentative_sinks(plan: Plan) -> list[str]:
    return [one.name for one in plan.operators if one.params.get("tentative")]


def test_the_tree_that_is_lost_is_a_job_and_each_of_its_keys_is_of_one_source() -> None:
    made = planned(tree(SOURCES), interval_ms=200, checkpoint_ms=1_000, budget=0.5, together=1)
    merging = [unit.name for unit in made.units if merges(unit.name)]
    assert (len(made.units), len(merging), merging[0]) == (2 * SOURCES - 1, MERGING, FIRST)
    assert len(tentative_sinks(made)) == 1
    of = {(msgspec.json.decode(record(index))["user"], index % SOURCES) for index in range(10 * KEYS)}
    assert len(of) == KEYS


@pytest.mark.parametrize("jobs_of", [COUNTS, CHAINS])
def test_the_same_job_is_measured_with_tentative_results_and_without(jobs_of: Kinds) -> None:
    assert [len(tentative_sinks(planned(jobs_of[kind]))) for kind in (FINAL, TENTATIVE)] == [0, 1]
    found = over_final({FINAL: [dict.fromkeys(COMPARED, 2.0)], TENTATIVE: [dict.fromkeys(COMPARED, 3.0)]})
    assert (found["p50_ms_over_final"], found["final_p50_ms"]) == (1.5, 2.0)


def test_the_figure_of_workers_is_judged_by_what_was_measured() -> None:
    point = {
        "recovered_s": 1.0,
        "detected_s": 0.5,
        "promised": 0.4,
        "stated": 0.5,
        "checkpoint_share": 0.1,
        "inexact": 0.0,
    }
    data = {key: dict(point) for key in P10W.keys}
    for at, technique in enumerate(TECHNIQUES):
        for lost in ("one", "all"):
            data[f"{technique}, {lost}"]["recovered_s"] = float(at + 1)
    data[HALF] |= {"recovered_s": 12.0, "first_s": 0.6, "accuracy": 0.45}
    data[NONE]["recovered_s"], data[SELDOM]["checkpoint_share"] = 12.5, 0.01
    assert [check.what for check in P10W.checks(data) if not check.holds] == []
    assert len(P10W.plots(data)) == 4
    data[HALF]["first_s"] = 1.5
    data[NONE]["inexact"] = 1.0
    assert len([check for check in P10W.checks(data) if not check.holds]) == 3


def test_a_unit_has_recovered_before_its_first_output_ends_the_takeover() -> None:
    phases = {"activation": 20.0, "replay": 5.0, "first_output": 180.0, "recovered": 30.0}
    assert recovered_ms(Event(1_000, "unit-active", phases_ms=phases)) == 850.0
    assert recovered_ms(Event(1_000, "unit-active", phases_ms=phases | {"recovered": 200.0})) == 1_000.0
