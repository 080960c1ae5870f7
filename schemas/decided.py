"""The identity of a proposal on a decided log.

Source: PROTOCOL 0.1. The rule that uses it lives in services/kernel/logs/decided.py.
"""

from __future__ import annotations

import msgspec


class Id(msgspec.Struct, frozen=True, array_like=True):
    """Who proposed (incarnation, or replica) and the how-manieth of his proposals it is."""

    author: str
    counter: int
