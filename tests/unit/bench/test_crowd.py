"""The job of units that run on one worker, and what a kill of that worker says."""

from __future__ import annotations

from bench.papers.c6 import THREE, _setting
from bench.papers.crowd import Recovered, job
from bench.papers.spending import MODULE
from services.planning.loading import load


def test_each_piece_is_a_unit_with_the_operator_that_it_spends_on() -> None:
    spec = load(job(_setting("idle-minmax")).substitute(name="x", topic="t"), "three.yaml")
    assert spec.placement.units == [[f"e{n}", f"s{n}", f"c{n}", f"l{n}", f"q{n}"] for n in range(len(THREE))]
    operators = spec.as_plain()["operators"]
    assert [operators[f"s{n}"]["python"] for n in range(len(THREE))] == [f"{MODULE}:{one.spends}" for one in THREE]
    assert spec.fault_tolerance.checkpoint.policy == "idle-minmax"


def test_a_worker_is_back_with_the_last_of_its_units() -> None:
    """Parts of different units are not added up."""
    early = {"detection": 20.0, "activation": 5.0, "replay": 300.0}
    late = {"detection": 90.0, "activation": 15.0, "replay": 250.0, "first_output": 900.0}
    found = Recovered([early, late], result_ms=1_400.0, expected_ms=200.0)
    assert found.worker_ms == 355.0
    assert (found.longest_ms("detection"), found.longest_ms("replay")) == (90.0, 300.0)
