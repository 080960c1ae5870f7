"""Trial of an update: the number of batches processed, of those after which the generation counts as proven healthy."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.schemas.plans import Plan
from holdfast.services.kernel.plurals import plural


class Trial(msgspec.Struct, frozen=True):
    """State of a trial.

    batches: batches that every unit has processed since the update.
    needed: batches after which the generation is proven healthy.
    """

    batches: int
    needed: int

    @property
    def over(self) -> bool:
        return self.batches >= self.needed

    def __str__(self) -> str:
        if self.over:
            return f"proven healthy: {plural(self.needed, 'batch', 'batches')} processed since the update"
        return f"on trial: {self.batches:,} of {plural(self.needed, 'batch', 'batches')} processed since the update"


def trial_of(plan: Plan, processed: Iterable[int]) -> Trial | None:
    """The trial of a generation; None if it is no update, or the update set no number of batches.

    processed: batch reached by each unit.
    """
    if plan.seed is None or not plan.seed.replaces or not plan.seed.proven_after:
        return None
    return Trial(max(0, min(processed, default=0) - plan.seed.batch), plan.seed.proven_after)
