"""`holdfast drill` says what the takeover took beside what was predicted, or why there was none."""

from __future__ import annotations

from typing import cast

import pytest

from holdfast.schemas import commands, events
from holdfast.schemas.commands import Command
from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition
from holdfast.services.cli.explanations import _draw_drill
from holdfast.services.client import drill as drilling
from holdfast.services.client.drill import Drilled, drill_unit
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.view.door import Door
from tests.unit.client.test_moving import JOB, TOPICS, Cluster

PREDICTED = {"detection": 330.0, "activation": 190.0, "catching-up": 50.0, "total": 570.0}
ACTUAL = {"detection": 330.0, "activation": 90.0, "catching-up": 20.0, "total": 440.0}


def drill(cluster: Cluster, timeout_s: float = 5.0) -> Drilled:
    class Place:
        log, topics = cluster.log, TOPICS

    return drill_unit(cast(Door, Place), JOB, "u-0", timeout_s)


def judged(kind: str = "promise-kept", unit: str = "u-0") -> bytes:
    return events.encode(
        Event(0, kind, "job", unit, 2, "w2", phases_ms=ACTUAL, promise_ms=500.0, predicted_ms=PREDICTED)
    )


@pytest.mark.parametrize("kind", ["promise-kept", "promise-broken"])
def test_a_drill_reports_promise_prediction_and_measured_times(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    def answers(cluster: Cluster) -> None:
        found = cluster.log.last(Partition(TOPICS.submit, 0))
        assert found is not None
        assert commands.decode(found.value() or b"") == Command("drill", "job", "u-0")
        cluster.place(2, "w2", moved=0, reason="a drill was asked for: the two change places")
        cluster.append(TOPICS.events, judged(unit="u-1"))
        cluster.append(TOPICS.events, judged(kind))

    found = drill(Cluster(monkeypatch, answers))
    assert (found.worker, found.promise_ms, found.kept) == ("w2", 500.0, kind == "promise-kept")
    assert (found.predicted, found.actual) == (PREDICTED, ACTUAL)


def test_a_takeover_that_nobody_could_predict_is_reported_without_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drilling, "JUDGED_S", 0.1)
    found = drill(Cluster(monkeypatch, lambda cluster: cluster.place(2, "w2", moved=0)))
    assert (found.worker, found.actual, found.kept) == ("w2", {}, True)


def test_a_refusal_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(cluster: Cluster) -> None:
        cluster.place(2, "w1", moved=0, reason="a drill was asked for that cannot be made: nothing moves (alone)")

    with pytest.raises(CommandFailed, match="no drill of u-0: a drill was asked for that cannot be made"):
        drill(Cluster(monkeypatch, answers))
    with pytest.raises(CommandFailed, match="refused: drill-refused"):
        drill(Cluster(monkeypatch, lambda cluster: cluster.tell("drill-refused", 2)))


def test_a_drill_that_does_not_come_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandFailed, match=r"no drill of u-0 within 0\.3 s"):
        drill(Cluster(monkeypatch, lambda cluster: None), 0.3)


def test_a_drill_is_drawn_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    _draw_drill("u-0", Drilled("w2", "passive", 500.0, PREDICTED, ACTUAL, kept=False))
    shown = capsys.readouterr().out
    for part in ("u-0 runs on w2 now, under passive", "catching-up", "440", "570", "promise: 500 ms, NOT kept"):
        assert part in shown
    _draw_drill("u-0", Drilled("w2", "passive"))
    assert "nothing was predicted" in capsys.readouterr().out
