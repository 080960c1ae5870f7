"""Deliberate bugs in what recovery takes for true of a unit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import ModuleType
from unittest import mock

from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.recovery.core.unit.table.signs import SIGNS


def mistaken(subject: ModuleType, fact: str, instead: Callable[[Situation], bool]) -> AbstractContextManager[object]:
    """`instead` stands in for a fact of a subject, wherever it is asked for, and for the signs that are this fact."""
    true, bug = getattr(subject, fact), ExitStack()
    bug.enter_context(mock.patch.object(subject, fact, instead))
    bug.enter_context(mock.patch.dict(SIGNS, {sign: instead for sign, holds in SIGNS.items() if holds is true}))
    return bug
