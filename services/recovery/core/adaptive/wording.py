"""A verdict in words and as a record, for people."""

from __future__ import annotations

import math
from collections.abc import Iterator

from holdfast.schemas.events import Alternative
from holdfast.services.recovery.core.unit.facts.verdict import Estimate, Verdict


def ordered(verdict: Verdict) -> list[Estimate]:
    """The chosen scheme first, then the others by cost."""
    return sorted(verdict.estimates, key=lambda one: (one.scheme != verdict.chosen, one.cost, one.total_ms))


def lines(verdict: Verdict) -> Iterator[str]:
    """Lines with the time and the cost of each scheme, and the reason against it; the chosen one first."""
    for one in ordered(verdict):
        why = verdict.rejected(one)
        takes = "unknown" if math.isinf(one.total_ms) else f"{one.total_ms:.0f} ms"
        yield f"{one.scheme}: {takes}, costs {one.cost:.2f}" + (f" ({why})" if why else "")


def alternatives(verdict: Verdict) -> tuple[Alternative, ...]:
    """Encodes the estimates of a verdict as records, with null in place of infinite times."""
    return tuple(
        Alternative(
            one.scheme,
            known(one.total_ms),
            round(one.cost, 3),
            {name: known(ms) for name, ms in one.phases.named().items()},
            rejected=verdict.rejected(one),
        )
        for one in ordered(verdict)
    )


def known(ms: float) -> float | None:
    """Returns the time rounded; None if it is infinite."""
    return None if math.isinf(ms) else round(ms, 1)
