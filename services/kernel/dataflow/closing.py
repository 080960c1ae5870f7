"""The watermark that closes everything a job holds, once its newest records have been processed.

Source: JOBS `close_after_idle_s`, PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Iterable

from schemas.cuts import NO_WATERMARK
from schemas.plans import OperatorPlan

_SECOND_US = 1_000_000


def closing_us(operators: Iterable[OperatorPlan], newest_us: int) -> int:
    """The lowest watermark of the sources at which no operator holds anything; NO_WATERMARK: none ever does.

    User code is taken to hold its rows until the watermark has passed them.

    Args:
        operators: of the plan, each behind its inputs. newest_us: largest event time that was cut.
    """
    reached: dict[str, tuple[int, int]] = {}
    needed = NO_WATERMARK
    for operator in operators:
        inputs = [reached[name] for name in operator.inputs if name in reached]
        newest = max((time for time, _ in inputs), default=newest_us)
        behind = max((lag for _, lag in inputs), default=0)
        held, newest, lag = _held(operator, newest)
        if held is not None:
            needed = max(needed, held + behind)
        reached[operator.name] = newest, behind + lag
    return needed


def _held(operator: OperatorPlan, newest: int) -> tuple[int | None, int, int]:
    """(watermark at which it holds nothing, newest time that it puts out, how far its own watermark is behind)."""
    if operator.kind == "python":
        return newest + 1, newest, 0
    if window := operator.params.get("window"):
        size, slide = (round(window[name] * _SECOND_US) for name in ("size_s", "slide_s"))
        end = newest // slide * slide + size
        return end, end - 1, 0
    join = operator.params.get("join") or {}
    if within_s := join.get("within_s"):
        within = round(within_s * _SECOND_US)
        return newest + within + 1, newest, within if join.get("kind") == "left" else 0
    return None, newest, 0
