"""Tests whose examples are drawn: some in every run, other ones each time, and all that they may take with `--long`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

ALL = "HOLDFAST_ALL_EXAMPLES"
"""Variable that ./scripts/test --long sets."""


def examples(each_run: int, with_long: int, **others: Any) -> Callable[[Any], Any]:
    """Decorator of a test with `given`: its examples in each run, and with --long. others: settings of hypothesis."""

    most = with_long if os.environ.get(ALL) else each_run

    def decorated(test: Any) -> Any:
        return pytest.mark.drawn(settings(max_examples=most, **others)(test))

    return decorated
