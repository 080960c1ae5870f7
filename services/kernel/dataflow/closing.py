"""The watermark that closes everything a job holds, once its newest records have been processed.

Source: JOBS `close_after_idle_s`, PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.operators import catalogue


def closing_us(operators: Iterable[OperatorPlan], newest_us: int) -> int:
    """The lowest watermark of the sources at which no operator holds anything; NO_WATERMARK: none ever does.

    Args:
        operators: of the plan, each behind its inputs. newest_us: largest event time that was cut.
    """
    reached: dict[str, tuple[int, int]] = {}
    needed = NO_WATERMARK
    for operator in operators:
        inputs = [reached[name] for name in operator.inputs if name in reached]
        newest = max((time for time, _ in inputs), default=newest_us)
        behind = max((lag for _, lag in inputs), default=0)
        held = catalogue.KINDS[operator.kind].held(operator.params, newest)
        if held.until is not None:
            needed = max(needed, held.until + behind)
        reached[operator.name] = held.newest, behind + held.lag
    return needed
