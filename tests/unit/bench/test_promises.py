"""What the promises bench plans, and what it says of what it found; and the model of figures M4 to M6."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

from bench.model.adapting import Adapted
from bench.promises.rounds import Promised
from bench.promises.trials import DRILL, KILL, PROMISES_MS, UNNOTICED, Outcome, Trial, exact, left_of, report, rounds
from bench.promises.trials import trials as trials_of
from bench.rig.followed import Followed
from holdfast.schemas.events import Alternative, Event


def made(promise_ms: int = 500, kind: str = KILL, took_ms: float = 300.0, **more: int) -> Outcome:
    return Outcome(promise_ms, kind, "hybrid", took_ms, 350.0, **more)  # type: ignore[arg-type]


def test_trials_already_made_are_not_made_again() -> None:
    wanted = trials_of((500, 200), {DRILL: 1, KILL: 2})
    assert Counter(wanted) == {Trial(p, k): n for p in (500, 200) for k, n in ((DRILL, 1), (KILL, 2))}
    assert left_of(wanted, [made(500), made(500, UNNOTICED)]) == [wanted[0], *wanted[2:]]


def test_a_round_has_several_promises_short_and_long_and_one_way_of_noticing() -> None:
    wanted = trials_of(PROMISES_MS, {DRILL: 4, KILL: 2, UNNOTICED: 3})
    found = list(rounds(wanted, 4))
    assert Counter(one for some in found for one in some) == Counter(wanted)
    assert [sorted({one.promise_ms for one in some}) for some in found] == [
        [200, 500, 2_000, 10_000], [200, 500, 2_000, 10_000], [1_000, 5_000, 20_000], [1_000, 5_000, 20_000],
    ]  # fmt: skip
    assert [{one.kind == UNNOTICED for one in some} for some in found] == [{False}, {True}] * 2


def test_a_unit_counts_its_own_judgements_and_choices_and_those_that_came_within_a_cool_down() -> None:
    def event(kind: str, time_ms: int = 0, epoch: int = 5, job: str = "mine", **more: Any) -> Event:
        return Event(time_ms, kind, job, "u", epoch=epoch, phases_ms={"total": 300.0}, **more)

    job = SimpleNamespace(plan=SimpleNamespace(job="mine", units=[SimpleNamespace(name="u")]), events=[])
    unit = Promised(500, cast(Followed, job), Counter({DRILL: 2}))
    unit.begins(4, "hybrid")
    job.events += [event("promise-kept", epoch=4), event("promise-kept", job="another")]
    assert not unit.over(0)
    assert unit.take(DRILL) is None
    job.events.append(event("promise-broken"))
    assert unit.over(0)
    assert unit.take(DRILL) == Outcome(500, DRILL, "hybrid", 300.0, 0.0, {"total": 300.0}, unjudged=1)
    assert unit.left == Counter({DRILL: 1})
    chosen = [event("scheme-changes", at, alternatives=(Alternative("none", None, 0.0),)) for at in (0, 2_500, 4_000)]
    job.events += chosen
    unit.ends(10, 0, 0, 1)
    assert (unit.outcomes[-1].changes, unit.outcomes[-1].hasty, unit.outcomes[-1].wrong) == (3, 1, 1)


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
