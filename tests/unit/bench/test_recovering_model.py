"""The model of a tree that recovers, by hand where it is short: MECHANISMS P10 to P13, figures P7 to P10."""

from __future__ import annotations

import pytest

from bench.model.recovering import (
    BATCH_S,
    PATIENCE_S,
    RESTORE_RECORD_S,
    RESTORE_S,
    SWITCH_S,
    TASKS,
    Setting,
    Technique,
    above,
    done,
    partly,
    recovered_s,
    replicas,
)
from bench.research.papers.p7 import P7, P8, P9, P10

SETTING = Setting()
EACH_S = BATCH_S * SETTING.load
LAST = (3, 0)


def test_a_task_alone_repeats_its_own_batches_one_after_the_other() -> None:
    found = done(SETTING, {LAST: 10}, 2.0, kept=True)
    assert found == {LAST: pytest.approx(2 + 10 * EACH_S)}
    assert done(SETTING, {LAST: 0}, 2.0, kept=True) == {LAST: 2.0}


def test_a_task_waits_for_what_the_one_above_repeats_and_not_for_what_that_one_kept() -> None:
    late, early = {(2, 0): 10, LAST: 3}, {(2, 0): 3, LAST: 10}
    assert done(SETTING, late, 0.0, kept=True)[LAST] == pytest.approx((10 + 1) * EACH_S), "the last batch comes last"
    assert done(SETTING, early, 0.0, kept=True)[LAST] == pytest.approx(10 * EACH_S), "the first seven are there"
    all_of_it = done(SETTING, dict.fromkeys(late, 10), 0.0, kept=False)
    assert all_of_it == {(2, 0): pytest.approx(10 * EACH_S), LAST: pytest.approx(11 * EACH_S)}


def test_everything_leads_to_the_last_task_and_sources_only_to_one_of_the_first_level() -> None:
    assert above(LAST) == set(TASKS)
    assert above((0, 5)) == {(0, 5)}


def test_a_checkpoint_restores_all_the_state_and_repeats_what_came_since() -> None:
    least = RESTORE_S + SETTING.state * RESTORE_RECORD_S
    for seed in range(5):
        took_s = recovered_s(Technique.CHECKPOINT, SETTING, [LAST], seed)
        assert least <= took_s <= least + SETTING.every_s * SETTING.load + EACH_S
        assert took_s <= recovered_s(Technique.CHECKPOINT, SETTING, TASKS, seed)


def test_rows_come_once_one_path_is_there_and_all_has_recovered_once_every_task_has() -> None:
    path = {(0, 5), (1, 2), (2, 1), LAST}
    assert replicas(4)[0] <= set(TASKS)
    assert replicas(4)[1] == 2 / 16, "a task of the first level reads two sources"
    assert replicas(15) == (frozenset(TASKS), 1.0)
    found = partly(SETTING, path, 1)
    least = RESTORE_S + SETTING.state * RESTORE_RECORD_S
    assert max(SWITCH_S, PATIENCE_S) + BATCH_S <= found.first_s < least <= found.recovered_s
    assert found.share == 1 / 8
    assert partly(SETTING, frozenset(TASKS), 1).share == 1
    assert partly(SETTING, frozenset(), 1).first_s >= least


@pytest.mark.slow
@pytest.mark.parametrize("figure", [P7, P8, P9, P10], ids=lambda figure: figure.tag)
def test_the_model_shows_what_the_paper_shows(figure) -> None:  # type: ignore[no-untyped-def]
    data: dict[str, dict[str, float]] = {}
    figure.measure(figure.keys, lambda key, values: data.__setitem__(key, dict(values)))
    assert [check.what for check in figure.checks(data) if not check.holds] == []
