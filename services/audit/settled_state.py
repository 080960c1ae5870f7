"""Finds the batch from which a replay with empty state, in the middle of a job, can be compared.

Source: PROTOCOL 14.2, JOBS "replay". The cut log of a running job is kept for `replay_horizon_s`. A window whose
    records were all cut within that time is computed as on the worker; earlier state is gone once the watermark has
    passed all windows that may include it. State without such a bound cannot be computed from the middle of a job.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.schemas.cuts import NO_WATERMARK, Cut, CutsSnapshot, TaskCuts
from holdfast.schemas.plans import OperatorPlan, Plan
from holdfast.services.kernel.dataflow.last_watermark import closing_us
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.kernel.operators.catalogue import KINDS
from holdfast.services.kernel.operators.kind import OperatorKind

_HINT = "`keep_cuts: true` in the job file keeps all that a replay needs"


def check_settles(plan: Plan, first: int) -> None:
    """Raises CommandFailed if a result of the job depends forever on batches up to `first`."""
    tables = plan.tables
    spark = [one.operator for one in plan.spark]
    kept = [one.name for one in plan.operators if _unbounded(one)]
    if names := sorted({*tables, *spark, *kept}):
        raise CommandFailed(
            f"the cut log begins behind batch {first}, and what {', '.join(names)} holds depends on all that came "
            "before: it cannot be computed again",
            _HINT,
        )


def _unbounded(operator: OperatorPlan) -> bool:
    """True if an operator keeps data of a record forever, or for an unknown time."""
    kind, settings = KINDS[operator.kind], operator.settings
    if not isinstance(kind, OperatorKind) or not kind.stateful(settings):
        return False
    return kind.horizon_us(settings) is None or bool(kind.code(settings))


class SettledState:
    """Follows a replay that begins with empty state behind a batch.

    Args:
        base: the state of the cut log before its first record.
    """

    def __init__(self, plan: Plan, base: CutsSnapshot) -> None:
        self._plan = plan
        self._tasks: dict[str, TaskCuts | Cut] = dict(base.tasks)
        self._needed: int | None = None

    def passes(self, cut: Cut) -> None:
        """Notes a cut of a batch that is not computed."""
        self._tasks[cut.task] = cut

    def settled(self, taken: Iterable[Cut]) -> bool:
        """True if the next batch, with the cuts `taken`, is computed as on the worker."""
        if self._needed is None:
            self._needed = self._watermark_needed()
        settled = min((one.watermark for one in self._tasks.values()), default=NO_WATERMARK) >= self._needed
        self._tasks |= {cut.task: cut for cut in taken}
        return settled

    def _watermark_needed(self) -> int:
        """The watermark at which no operator has state of batches that were not computed; any watermark if no record
        came.
        """
        times = (r.newest_us for one in self._tasks.values() for r in one.ranges)
        newest = max((time for time in times if time is not None), default=None)
        return NO_WATERMARK if newest is None else closing_us(self._plan.operators, newest)
