"""What a replication budget gets a job, and job files whose budget cannot do what it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from holdfast.schemas.plans import Plan
from holdfast.services.cli.commands import app
from holdfast.services.cli.replication import chart
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.fidelity.of_job import Rates, edge_rates, planned
from holdfast.services.planning.replication import predict
from tests.support.topologies import without
from tests.unit.planning.jobs import job, plan, query, source

COUNT: dict[str, Any] = {"aggregate": {"n": "count()"}, "key": ["x"], "emit": "updates", "input": "s", "parallelism": 4}


def _job(budget: float | None = 0.5, **settings: Any) -> dict[str, Any]:
    tolerance = {"default": {"scheme": "passive"}, "replication_budget": budget, **settings}
    return job({"c": COUNT}, {"s": source(parallelism=2)}, {"q": query("c")}, fault_tolerance=tolerance)


def _units(made: Plan) -> dict[str, tuple[str, bool]]:
    return {unit.name: (unit.scheme, unit.planned) for unit in made.units}


def test_a_unit_with_a_scheme_of_its_own_is_left_out_and_every_other_is_at_least_passive() -> None:
    made = plan(_job(default={"scheme": "none"}, units={"s-0": {"scheme": "hybrid"}}))
    found = _units(made)
    assert found["s-0"] == ("hybrid", False)
    assert {one for name, one in found.items() if name != "s-0"} == {("passive", True)}
    assert any("1 unit left out" in one for one in made.warnings)
    of = planned(made)
    assert of.left_out == ("s-0",)
    assert (of.budget(0.5), of.budget(1), of.budget(0)) == (len(of.units) // 2, len(of.units), 0)


def test_the_prediction_counts_a_left_out_unit_with_a_replica_as_there() -> None:
    made = plan(_job(units={"s": {"scheme": "active-standby"}}))
    found = predict(made, 0.5)
    assert found.units == ("c-0", "c-1")
    assert found.fidelity == pytest.approx(0.5)
    assert found.queries == {"q": pytest.approx(0.5)}
    assert found.best == pytest.approx(0.5)
    assert found.following == ("c-2",)
    assert found.following_fidelity == pytest.approx(0.75)
    assert [value for _, value in found.curve] == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert found.least == {"q": 1}


def test_rates_decide_which_units_are_worth_a_replica() -> None:
    made = plan(_job())
    found = predict(made, 0.34, Rates({"s": (1.0, 9.0), "c": (1.0, 1.0, 6.0, 2.0)}))
    assert set(found.units) == {"s-1", "c-2"}
    assert found.fidelity == pytest.approx(0.9 * 0.6)


def test_measured_rates_are_those_of_operators_of_which_every_task_was_heard() -> None:
    made = plan(_job())
    edge = next(one.topic for one in made.edges if one.topic is not None).rpartition(".data.")[2]
    outputs = {("s-0", edge): 5.0, ("s-1", edge): 7.0, ("c-0", "sink-q"): 1.0}
    rates = edge_rates(made, {(f"c-{task}", edge): 3.0 for task in range(4)}, outputs)
    assert rates.outputs == {"s": (5.0, 7.0)}
    assert rates.inputs == {"c": {"s": (3.0, 3.0, 3.0, 3.0)}}


def test_a_table_loses_its_share_of_tasks_and_a_join_what_either_side_loses() -> None:
    raw = job(
        {"j": {"join": {"left": "s", "right": "t", "on": ["x"], "kind": "inner"}, "parallelism": 1}},
        {"s": source(parallelism=2), "t": source(parallelism=2, table=["x"])},
        {"q": query("j")},
        fault_tolerance={"default": {"scheme": "passive"}, "replication_budget": 1.0},
    )
    found = planned(plan(raw), Rates({"t": (1000.0, 1.0), "s": (1.0, 1.0)}))
    assert without(found.topology, "t-0") == pytest.approx(0.5)
    assert without(found.topology, "t-0", "s-0") == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        ({"default": {"scheme": "adaptive"}}, "no unit is left for it", "scheme other than adaptive"),
        (
            {"units": {name: {"scheme": "hybrid"} for name in ("s", "c")}},
            "no unit is left for it",
            "fault_tolerance.units",
        ),
        *(
            ({"default": {"scheme": scheme}}, f"{scheme} gives every unit a replica", "such as passive")
            for scheme in ("active-standby", "active-replication")
        ),
        (
            {"checkpoint": {"policy": "idle-minmax"}},
            "idle-minmax captures",
            "another fault_tolerance.checkpoint.policy",
        ),
    ],
)
def test_a_budget_that_cannot_do_what_it_is_for_is_refused_with_the_reason(
    settings: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(JobRejected) as rejected:
        plan(_job(**settings))
    found = [one for one in rejected.value.problems if one.path == "fault_tolerance.replication_budget"]
    assert len(found) == 1
    assert message in found[0].message
    assert hint in found[0].hint


def test_a_budget_that_is_too_small_for_a_query_is_warned_of_with_the_smallest_that_is_not() -> None:
    for share, allowed in ((0.2, "0.2 is 1 unit of 6"), (0.0, "0 is 0 units of 6")):
        said = [one for one in plan(_job(share)).warnings if "keeps nothing" in one]
        needed = f"query q keeps nothing, {allowed}: it needs 2 units, 0.34 or more"
        assert said == [f"fault_tolerance.replication_budget: {needed}"]
    assert predict(plan(_job(0.34)), 0.34).fidelity > 0
    assert not [one for one in plan(_job(0.34)).warnings if "keeps nothing" in one]


def test_a_query_that_needs_a_barred_unit_is_warned_of() -> None:
    raw = job(
        {"c": COUNT},
        {"s": source(parallelism=1), "r": source(parallelism=1)},
        {"q": query("c"), "p": query("r", topic="other")},
        fault_tolerance={
            "default": {"scheme": "passive"}, "replication_budget": 0.5, "units": {"s": {"scheme": "passive"}},
        },
    )  # fmt: skip
    assert any("query q keeps nothing: a unit that it needs is left out" in one for one in plan(raw).warnings)


def test_the_chart_fits_a_terminal_and_marks_the_budget() -> None:
    curve = tuple((units, units / 200) for units in range(201))
    lines = chart(curve, 100).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[-1].strip() == "▲ 100 of 200 units"
    assert lines[1].count("█") < lines[8].count("█")


def test_the_command_prints_the_plan_of_a_job_file(tmp_path: Path) -> None:
    file, rates = tmp_path / "job.yaml", tmp_path / "rates.yaml"
    file.write_text(yaml.safe_dump(_job()))
    rates.write_text("s: [1, 9]\n")
    shown = CliRunner().invoke(app, ["plan", str(file), "--budget", "0.5", "--rates", str(rates)])
    assert shown.exit_code == 0, shown.output
    assert "a replica for 3 of 6 units" in shown.output
    assert max(map(len, shown.output.splitlines())) <= 100
    rates.write_text("s: [1, 9, 2]\n")
    refused = CliRunner().invoke(app, ["plan", str(file), "--rates", str(rates)])
    assert refused.exit_code != 0
