"""Memory of an object with all that it refers to, as far as Python knows."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from types import FunctionType, ModuleType


def reached_bytes(root: object, beside: Iterable[object] = ()) -> int:
    """Bytes of all that is reached from `root`, but what is reached from `beside`: containers, texts, frames that are
    held.

    Modules, classes and functions do not count, nor memory that libraries keep outside of Python.
    """
    seen = {id(one) for one in _reached(beside, set())}
    return sum(sys.getsizeof(one) for one in _reached([root], seen))


def _reached(roots: Iterable[object], seen: set[int]) -> list[object]:
    found, left = [], list(roots)
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, (ModuleType, type, FunctionType)):
            continue
        seen.add(id(one))
        found.append(one)
        left += gc.get_referents(one)
    return found
