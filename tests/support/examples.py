"""Tests whose examples are drawn: few with `--quick`, some in every run, other ones each time, all with `--long`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import settings

ALL, FEW = "HOLDFAST_ALL_EXAMPLES", "HOLDFAST_FEW_EXAMPLES"
"""Variables that ./scripts/test --long and --quick set."""
QUICK_SHARE = 8
"""One of so many examples of each run is drawn with --quick."""


def all_examples() -> bool:
    """--long runs."""
    return bool(os.environ.get(ALL))


def few_examples() -> bool:
    """--quick runs."""
    return bool(os.environ.get(FEW))


def most(each_run: int, with_long: int) -> int:
    """Number of examples that a test draws in this run."""
    if all_examples():
        return with_long
    return -(-each_run // QUICK_SHARE) if few_examples() else each_run


def examples(each_run: int, with_long: int, **others: Any) -> Callable[[Any], Any]:
    """Decorator of a test with `given`: its examples in each run, and with --long. others: settings of hypothesis.

    tests/conftest.py marks every such test as `drawn`, so that --long runs it, too.
    """
    return settings(max_examples=most(each_run, with_long), **others)
