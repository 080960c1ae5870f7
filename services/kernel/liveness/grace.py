"""The grace of a heartbeat before it counts as missed: the text of HOLDFAST_GRACE.

Source: MECHANISMS H7, PROTOCOL 8.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

ADAPTIVE = "adaptive"
LEAST_MS, MOST_MS = 1, 60_000
_FIXED = re.compile(r"fixed:(\d{1,5})")


def fixed_us(grace: str) -> int | None:
    """The fixed grace of a text accepted by `Grace`, in microseconds; None: it follows the spread of each worker's
    heartbeats.
    """
    return None if grace == ADAPTIVE else int(grace.partition(":")[2]) * 1000


def _known(grace: str) -> str:
    """Returns the text. Raises ValueError if it has neither of the two forms."""
    fixed = _FIXED.fullmatch(grace)
    if grace != ADAPTIVE and (fixed is None or not LEAST_MS <= int(fixed[1]) <= MOST_MS):
        raise ValueError(
            f"'{grace}' is no grace: write '{ADAPTIVE}', or 'fixed:<ms>' with {LEAST_MS} to {MOST_MS} ms, as fixed:30"
        )
    return grace


Grace = Annotated[
    str,
    AfterValidator(_known),
    Field(
        description="how late a heartbeat may be before it is missed: adaptive (it follows the spread of each worker's "
        "heartbeats, for few false switches on a shared machine) or fixed:<ms> (the paper's, which acts sooner on a "
        "loaded machine)"
    ),
]
