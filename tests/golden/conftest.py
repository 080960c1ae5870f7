"""Polars computes on one thread, as it does in a worker, where this folder is the first to import it.

Every test here runs over made streams, and once more over recorded ones where this machine has them.
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import pytest

from tests.golden import recordings


@pytest.fixture(autouse=True, params=recordings.kinds())
def _streams(request: pytest.FixtureRequest) -> None:
    recordings.read(request.param)
