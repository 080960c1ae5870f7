"""The job of units that run on one worker, and what a kill of that worker says."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from bench.research.papers.c6 import THREE, _setting
from bench.research.papers.crowd import Piece, Recovered, Turns, job
from bench.research.papers.reported import Reported
from bench.research.papers.spending import MODULE
from holdfast.schemas.costs import Costs
from holdfast.schemas.heartbeats import CopyState, Heartbeat
from holdfast.services.planning.loader import load


def test_each_piece_is_a_unit_with_the_operator_that_it_spends_on() -> None:
    spec = load(job(_setting("idle-minmax")).substitute(name="x", topic="t"), "three.yaml")
    assert spec.placement.units == [[f"e{n}", f"s{n}", f"c{n}", f"l{n}", f"q{n}"] for n in range(len(THREE))]
    operators = spec.as_plain()["operators"]
    assert [operators[f"s{n}"]["python"] for n in range(len(THREE))] == [f"{MODULE}:{one.spends}" for one in THREE]
    assert spec.fault_tolerance.checkpoint.policy == "idle-minmax"


@pytest.mark.parametrize("units", [1, 2, 3, 8])
def test_each_unit_gets_all_of_its_keys_at_its_rate(units: int) -> None:
    turns = Turns([Piece(100.0, 200), *[Piece(300.0, 50)] * (units - 1)])
    records = Counter((turns.units[n % len(turns.units)], turns.key(n)) for n in range(200 * len(turns.units)))
    assert sorted({key for unit, key in records if unit == 0}) == list(range(200))
    for other in range(1, units):
        assert {key: n for (unit, key), n in records.items() if unit == other} == dict.fromkeys(range(50), 12)
    assert turns.least_per_s * len(turns.units) == 100 + 300 * (units - 1)


def test_a_worker_is_back_with_the_last_of_its_units() -> None:
    """Parts of different units are not added up."""
    early = {"detection": 20.0, "activation": 5.0, "replay": 300.0}
    late = {"detection": 90.0, "activation": 15.0, "replay": 250.0, "first_output": 900.0}
    found = Recovered([early, late], result_ms=1_400.0, expected_ms={}, backups=["w2", "w3"])
    assert found.worker_ms == 355.0
    assert found.longest_ms("detection") == 90.0
    assert found.replays_ms == {"w2": 300.0, "w3": 250.0}, "two backups work beside each other"


def test_a_backup_replays_from_its_first_unit_s_work_until_its_last_unit_is_done() -> None:
    """It takes them in turns: what one waits for its activation the other replays."""
    first = {"activation": 10.0, "replay": 40.0}
    second = {"activation": 45.0, "replay": 60.0}
    elsewhere = {"activation": 500.0, "replay": 90.0}
    found = Recovered([first, second, elsewhere], 0.0, {}, ["w2", "w2", "w3"])
    assert found.replays_ms == {"w2": 95.0, "w3": 90.0}


def _beat(worker: str, time_ms: int, durable: int, *costs: Costs) -> Heartbeat:
    copies = tuple(CopyState(f"j@g/{unit}", 1, "running", durable=durable) for unit in ("a", "b"))
    return Heartbeat(worker, "1", time_ms, copies=copies, costs=costs)


def test_the_expected_recovery_at_a_kill_continues_from_the_leaders_last_reports() -> None:
    """R_Qij: the units of one backup one after the other."""
    reported = Reported("g")
    reported.read(_beat("w1", 1_000, 3, Costs("j@g/a", process_ms=100, recovery_ms=50), Costs("j@g/b")))
    reported.read(_beat("w1", 2_000, 3, Costs("j@g/a", process_ms=300, recovery_ms=250), Costs("j@g/b")))
    reported.read(_beat("w2", 2_000, 3, Costs("j@g/a", recovery_ms=7), Costs("j@g/b", recovery_ms=5)))
    assert reported.expected_ms("w1", {"a": "w2", "b": "w2"}, 2_500) == {"w2": 250 + 100 + 7 + 5}
    assert reported.expected_ms("w1", {"a": "w2", "b": "w3"}, 2_000) == {"w2": 257, "w3": 0}


def test_costs_from_before_the_newest_marker_are_not_current() -> None:
    reported = Reported("g")
    assert not reported.current("w1", "a")
    reported.read(_beat("w1", 1_000, 3, Costs("j@g/a")))
    assert reported.current("w1", "a")
    reported.read(_beat("w1", 1_100, 4))
    assert not reported.current("w1", "a")
    reported.read(_beat("w1", 1_900, 4, Costs("j@g/a")))
    assert reported.current("w1", "a")
    reported.read(msgspec.structs.replace(_beat("w1", 2_000, 4), incarnation="2"))
    assert not reported.current("w1", "a"), "another process begins again"
