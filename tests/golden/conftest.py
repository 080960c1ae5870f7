"""Every test here runs over made streams, and once more over recorded ones where this machine has them."""

from __future__ import annotations

import pytest

from tests.golden import recordings


@pytest.fixture(autouse=True, params=recordings.kinds())
def _streams(request: pytest.FixtureRequest) -> None:
    recordings.read(request.param)
