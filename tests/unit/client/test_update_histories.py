"""Updates amid faults at random moments are exact."""

from __future__ import annotations

from tests.support.update_histories import History


def test_updates_amid_faults_are_exact() -> None:
    history = History(1)
    history.run(6)
    assert history.updates == 6
    assert history.faults
