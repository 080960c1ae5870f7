"""Figure C4: what is kept of a kill, and what is judged of many."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from bench.research.papers import spending
from bench.research.papers.c4 import C4, KILLS, error, foretold, groups, values
from bench.research.papers.crowd import Recovered
from bench.research.papers.figure import Data, Values, Verdict, verdict

Foretell = Callable[[int, float], float]
"""What was expected, by the number of peers and what it took."""


def kill(peers: int, replay_ms: float, foretell: Foretell) -> Values:
    """Each backup has its part of the replay, the last one most."""
    parts = [replay_ms * (n + 1) / peers for n in range(peers)]
    found = {f"replay_{n}_ms": ms for n, ms in enumerate(parts)}
    found |= {f"expected_{n}_ms": foretell(peers, ms) for n, ms in enumerate(parts)}
    return {"worker_ms": replay_ms + 100.0, **found}


def test_the_work_of_a_batch_is_left_out_while_rows_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = list[bytes]()
    monkeypatch.setattr(spending, "_DATA", b"x")
    monkeypatch.setattr("bench.research.papers.spending.hashlib.sha256", lambda: SimpleNamespace(update=hashed.append))
    batch = pl.DataFrame({"user": ["a"], "amount": [1], "_time": [5]})
    context: Any = None
    with spending.spared():
        alike = spending.Hash.on_batch(SimpleNamespace(hashed=3), batch, context, context)  # type: ignore[arg-type]
    assert not hashed
    assert spending.Hash.on_batch(SimpleNamespace(hashed=3), batch, context, context).equals(alike)  # type: ignore[arg-type]
    assert len(hashed) == 3


def kills(foretell: Foretell, over_4: float = 0.25) -> Data:
    return {
        f"{peers} {n}": kill(peers, (1_000.0 + 100.0 * n) * (over_4 if peers == 4 else 1.0), foretell)
        for peers, number in KILLS.items()
        for n in range(number)
    }


def judged(foretell: Foretell, over_4: float = 0.25) -> Verdict:
    return verdict(C4.checks(kills(foretell, over_4)))


def test_the_measure_has_fifty_kills() -> None:
    assert len(C4.keys) == 50


def test_each_backup_is_kept_with_what_was_expected_of_it() -> None:
    phases = [{"detection": 10.0, "activation": 5.0, "replay": ms} for ms in (300.0, 200.0)]
    made = values(Recovered(phases, 900.0, {"w3": 210.0, "w2": 280.0}, ["w2", "w3"]))
    assert groups(made) == [(280.0, 300.0), (210.0, 200.0)]
    assert (made["worker_ms"], made["detection_ms"], made["activation_ms"]) == (315.0, 10.0, 5.0)


def test_a_worker_is_expected_back_with_its_slowest_backup() -> None:
    data = kills(lambda _, ms: 1.1 * ms)
    expected_ms, took_ms = foretold(data, 4)[0]
    assert (round(expected_ms), took_ms) == (275, 250.0)
    assert error(foretold(data, 4)) == pytest.approx(0.1)


def test_a_model_that_foretells_within_three_tenths_is_reproduced() -> None:
    assert judged(lambda _, ms: 0.8 * ms) is Verdict.REPRODUCED
    assert judged(lambda _, ms: 1.2 * ms) is Verdict.REPRODUCED


@pytest.mark.parametrize(
    "foretell",
    [
        lambda _, ms: 0.6 * ms,
        lambda _, ms: 1.4 * ms,
        lambda peers, ms: ms if peers == 1 else 0.0,  # a fifth of the time of all kills
        lambda peers, ms: ms if peers == 4 else 2 * ms,
        lambda _, ms: 900.0,  # the same whatever is to be repeated
    ],
)
def test_a_model_that_foretells_too_little_or_too_much_is_not(foretell: Foretell) -> None:
    assert judged(foretell) is Verdict.IN_SHAPE


def test_a_model_that_takes_one_backup_for_another_is_not_reproduced() -> None:
    """The longest is right, the parts are not."""
    data = kills(lambda _, ms: ms)
    swapped = {
        key: one | {f"expected_{n}_ms": one[f"replay_{3 - n}_ms"] for n in range(4)} if key.startswith("4 ") else one
        for key, one in data.items()
    }
    assert error(foretold(swapped, 4)) == 0.0
    assert verdict(C4.checks(swapped)) is Verdict.IN_SHAPE


def test_peers_that_do_not_share_the_work_are_not_reproduced() -> None:
    assert judged(lambda _, ms: ms, over_4=1.0) is Verdict.NOT
    assert judged(lambda _, ms: ms, over_4=0.6) is Verdict.IN_SHAPE
