"""The example of the contract, planned with the real operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan, Problem
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.plain_data import read
from holdfast.services.planning.plan import make_plan
from tests.unit.planning.jobs import GENERATION, routes, units

EXAMPLE = Path(__file__).parents[2] / "support" / "jobs" / "flight-delays.yaml"
TOPICS = {"flights": 3, "weather": 1, "delays": 2, "joined": 1, "everything": 1, "scores": 2}


def example(**queries: Any) -> dict[str, Any]:
    raw: dict[str, Any] = read(EXAMPLE.read_text(), EXAMPLE.name)
    return raw | {"queries": raw["queries"] | queries}


def plan(raw: dict[str, Any]) -> Plan:
    return make_plan(
        interpret(raw),
        generation=GENERATION,
        id=Id("controller", 1),
        topics=TOPICS,
        first={topic: dict.fromkeys(range(partitions), 7) for topic, partitions in TOPICS.items()},
        prefix="holdfast",
        versions={},
        allow=["tests.support"],
    )


def test_the_example_becomes_five_units() -> None:
    made = plan(example())
    assert units(made) == [
        "flights-0: flights late shaped",
        "flights-1: flights late shaped",
        "by_carrier-0: by_carrier",
        "by_carrier-1: by_carrier",
        "busiest-0: busiest sink-delays",
    ]
    assert [unit.delivers for unit in made.units] == [True, True, False, False, True]
    assert made.sources[0].owners == ((0, 2), (1,))
    assert made.sources[0].first == {0: 7, 1: 7, 2: 7}
    assert made.sink_partitions == {"delays": 2}
    assert made.interval_ms == 10


def test_the_example_carries_rows_by_key_to_windows_and_all_windows_to_the_ranking() -> None:
    made = plan(example())
    assert routes(made) == {
        "flights late": "forward",
        "late shaped": "forward",
        "shaped by_carrier": "keyed",
        "by_carrier busiest": "merge",
        "busiest sink-delays": "forward",
    }
    assert [edge.topic for edge in made.edges if edge.topic] == [
        f"holdfast.flight-delays.{GENERATION}.data.shaped.0",
        f"holdfast.flight-delays.{GENERATION}.data.by_carrier.0",
    ]
    fields = {operator.name: operator.fields for operator in made.operators}
    assert fields["shaped"] == {"origin": "string", "carrier": "string", "delay_h": "float?", "time_hour": "timestamp"}
    assert list(fields["by_carrier"]) == ["carrier", "n", "mean_h", "window_start", "window_end"]
    assert made.operators[-1].row_key == ("window_start", "window_end", "rank")


def test_every_operator_of_the_example_can_feed_a_query() -> None:
    made = plan(
        example(
            joined={"input": "with_weather", "sink": {"topic": "joined"}},
            everything={"input": "both", "sink": {"topic": "everything"}},
            scores={"input": "scored", "sink": {"topic": "scores"}},
        )
    )
    assert {
        "flights-0: flights late early shaped both sink-everything",
        "weather-0: weather",
        "with_weather-1: with_weather sink-joined",
        "scored-1: scored sink-scores",
    } <= set(units(made))
    assert {name: how for name, how in routes(made).items() if "weather" in name or "scored" in name} == {
        "flights with_weather": "keyed",
        "weather with_weather": "keyed",
        "with_weather sink-joined": "forward",
        "flights scored": "keyed",
        "scored sink-scores": "forward",
    }


def test_mistakes_in_expressions_and_columns_are_told_with_those_of_the_rest() -> None:
    raw = example()
    raw["operators"]["late"]["filter"] = "dep_dely > 15"
    raw["operators"]["with_weather"]["join"]["on"] = ["origin", "hour"]
    raw["queries"]["delays"]["sink"]["topic"] = "delay"
    with pytest.raises(JobRejected) as caught:
        plan(raw)
    found = {problem.path: problem for problem in caught.value.problems}
    assert list(found) == ["operators.late.filter", "operators.with_weather.join.on[1]", "queries.delays.sink.topic"]
    assert "dep_delay" in str(found["operators.late.filter"])
    assert found["queries.delays.sink.topic"] == Problem(
        "queries.delays.sink.topic",
        "there is no topic 'delay'",
        "did you mean 'delays'? `holdfast submit --create-topics` creates it",
    )
