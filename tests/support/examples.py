"""Tests whose examples are drawn: some in every run, other ones each time, and all that they may take with `--long`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import settings

ALL = "HOLDFAST_ALL_EXAMPLES"
"""Variable that ./scripts/test --long sets."""


def all_examples() -> bool:
    """--long runs."""
    return bool(os.environ.get(ALL))


def most(each_run: int, with_long: int) -> int:
    """Number of examples that a test draws in this run."""
    return with_long if all_examples() else each_run


def examples(each_run: int, with_long: int, **others: Any) -> Callable[[Any], Any]:
    """Decorator of a test with `given`: its examples in each run, and with --long. others: settings of hypothesis.

    tests/conftest.py marks every such test as `drawn`, so that --long runs it, too.
    """
    return settings(max_examples=most(each_run, with_long), **others)
