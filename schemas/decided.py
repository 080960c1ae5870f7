"""The identity of a proposal on a decided log.

Source: PROTOCOL 0.1. The rule that uses it is in services/decisions/decided.py.
"""

from __future__ import annotations

import msgspec


class Id(msgspec.Struct, frozen=True, array_like=True):
    """The author (an incarnation or a replica) and the number of the proposal, counted by its author."""

    author: str
    counter: int
