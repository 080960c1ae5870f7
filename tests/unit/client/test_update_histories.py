"""Updates amid faults at random moments are exact."""

from __future__ import annotations

import pytest

from tests.support.update_histories import History

pytestmark = pytest.mark.slow


def test_updates_amid_faults_are_exact() -> None:
    history = History(1)
    history.run(6)
    assert history.updates == 6
    assert history.faults
