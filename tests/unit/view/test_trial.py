"""An update is on trial until every unit has processed as many batches as somebody said."""

from __future__ import annotations

from msgspec import structs

from holdfast.schemas.plans import Seed
from holdfast.services.view.trial import trial_of
from tests.unit.view.test_cluster_view import plan as planned

PLAN = planned("job", "1-000001")
SEED = Seed("topic", "id", 100, {}, {}, replaces="0-000001", proven_after=1_000)


def test_the_unit_that_is_behind_counts_from_the_batch_of_the_update_on() -> None:
    plan = structs.replace(PLAN, seed=SEED)
    assert str(trial_of(plan, [90])) == "on trial: 0 of 1,000 batches processed since the update"
    assert str(trial_of(plan, [2_000, 350])) == "on trial: 250 of 1,000 batches processed since the update"
    assert str(trial_of(plan, [1_100])) == "proven healthy: 1,000 batches processed since the update"


def test_nothing_is_on_trial_where_nobody_said_how_long_or_nothing_was_replaced() -> None:
    for seed in (None, structs.replace(SEED, proven_after=0), structs.replace(SEED, replaces="")):
        assert trial_of(structs.replace(PLAN, seed=seed), [500]) is None
