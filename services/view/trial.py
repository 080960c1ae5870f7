"""Trial of an update: batches that the generation has processed, of those after which it counts as proven healthy."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.schemas.plans import Plan
from holdfast.services.kernel.plurals import plural


class Trial(msgspec.Struct, frozen=True):
    """batches: processed by every unit since the update. needed: with so many it is proven healthy."""

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
    """None: it is no update, or nobody has said how many batches prove it. processed: by each unit."""
    if plan.seed is None or not plan.seed.replaces or not plan.seed.proven_after:
        return None
    return Trial(max(0, min(processed, default=0) - plan.seed.batch), plan.seed.proven_after)
