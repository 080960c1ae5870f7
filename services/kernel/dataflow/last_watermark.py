"""The watermark that closes all windows and other held rows of a job, once its newest records are processed.

Source: JOBS `close_after_idle_s`, PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.operators import catalogue


def closing_us(operators: Iterable[OperatorPlan], newest_us: int) -> int:
    """Returns the lowest watermark of the sources at which no operator holds a row; NO_WATERMARK if none ever does.

    Args:
        operators: of the plan, each after its inputs.
        newest_us: the largest event time in a cut, microseconds since 1970.
    """
    reached: dict[str, tuple[int, int]] = {}
    needed = NO_WATERMARK
    for operator in operators:
        inputs = [reached[name] for name in operator.inputs if name in reached]
        newest = max((time for time, _ in inputs), default=newest_us)
        behind = max((lag for _, lag in inputs), default=0)
        held = catalogue.KINDS[operator.kind].held(operator.settings, newest)
        if held.until is not None:
            needed = max(needed, held.until + behind)
        reached[operator.name] = held.newest, behind + held.lag
    return needed
