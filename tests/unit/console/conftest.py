"""One Chromium and one console for all tests that look at it in a browser: each test has a page of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.shown_console import ShownConsole

if TYPE_CHECKING:
    from bench.rig.browser import Chromium


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    from bench.rig.browser import Chromium  # what it needs comes with the extra of the console

    with Chromium() as made:
        yield made


@pytest.fixture(scope="session")
def console() -> Iterator[ShownConsole]:
    with ShownConsole() as made:
        yield made
