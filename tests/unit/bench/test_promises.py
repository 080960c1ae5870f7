"""What the promises bench plans, and what it says of what it found; and the model of figures M4 to M6."""

from __future__ import annotations

from collections import Counter

from bench.model.adapting import Adapted
from bench.promises.trials import DRILL, KILL, PROMISES_MS, UNNOTICED, Outcome, Trial, exact, left_of, report, rounds
from bench.promises.trials import trials as trials_of


def made(promise_ms: int = 500, kind: str = KILL, took_ms: float = 300.0, **more: int) -> Outcome:
    return Outcome(promise_ms, kind, "hybrid", took_ms, 350.0, **more)  # type: ignore[arg-type]


def test_what_was_made_is_not_made_again() -> None:
    wanted = trials_of((500, 200), {DRILL: 1, KILL: 2})
    assert Counter(wanted) == {Trial(p, k): n for p in (500, 200) for k, n in ((DRILL, 1), (KILL, 2))}
    assert left_of(wanted, [made(500), made(500, UNNOTICED)]) == [wanted[0], *wanted[2:]]


def test_a_round_has_one_promise_and_one_way_of_noticing_and_drills_and_kills_take_turns() -> None:
    wanted = trials_of(PROMISES_MS, {DRILL: 4, KILL: 2, UNNOTICED: 3})
    found = list(rounds(wanted, 5))
    assert Counter(one for some in found for one in some) == Counter(wanted)
    for some in found:
        assert len(some) <= 5
        assert len({(one.promise_ms, one.kind == UNNOTICED) for one in some}) == 1
    assert [one.kind for one in found[0]] == [DRILL, KILL, DRILL, KILL, DRILL]


def test_a_promise_that_is_broken_shows_in_its_row() -> None:
    rows = report([made(), made(took_ms=501.0), made(200, DRILL, 900.0), made(20_000, took_ms=501.0)])
    assert [(row.promise_ms, row.times, row.broken, row.met) for row in rows] == [
        (200, 1, 1, None), (500, 2, 1, False), (20_000, 1, 0, True),
    ]  # fmt: skip
    assert exact([made(), made(rows=10)])
    assert not exact([made(lost=1)])


def test_in_the_model_the_scheme_follows_the_load_and_no_change_comes_within_a_cool_down() -> None:
    """Ten times the records make ten times the state, which a restore would read for too long."""
    trace = [1_000.0] * 40 + [10_000.0] * 40
    unit = Adapted(trace, 5_000, {}, seed=1, cool_down_s=2.0)
    calm = unit.run(39).look()
    busy = unit.run(30).look()
    assert (calm.scheme, busy.scheme) == ("passive", "passive-cold")
    assert busy.state_bytes > 5 * calm.state_bytes
    assert max(calm.takes_ms, busy.takes_ms) <= 5_000
    assert all(after - before >= 2_000 for before, after in zip(unit.changes_ms, unit.changes_ms[1:], strict=False))
