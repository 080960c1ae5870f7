"""A marker names the cut log as it was before the first cut behind its batch, however often it is asked for."""

from __future__ import annotations

from functools import partial

from holdfast.schemas.cuts import CutsSnapshot
from holdfast.services.worker.core.restarts import Restarts


def log(upto: int) -> CutsSnapshot:
    return CutsSnapshot(upto, {})


def test_a_marker_has_the_cuts_as_of_its_batch_and_again_after_its_run_was_refused() -> None:
    restarts = Restarts()
    for batch in (57, 58, 59):
        restarts.cut(batch, partial(log, 10 * batch))
    assert restarts.as_of(57, newest=log(600)) == log(580)
    assert restarts.as_of(57, newest=log(600)) == log(580), "the run of the first marker was refused"
    assert restarts.as_of(58, newest=log(600)) == log(590)
    assert restarts.as_of(59, newest=log(600)) == log(600), "no cut behind it is known"


def test_the_first_of_several_cuts_of_one_batch_counts() -> None:
    restarts = Restarts()
    restarts.cut(8, lambda: log(70))
    restarts.cut(8, lambda: log(71))
    assert restarts.as_of(7, newest=log(80)) == log(70)


def test_batches_that_another_copy_has_done_need_no_marker() -> None:
    restarts = Restarts()
    restarts.cut(8, lambda: log(70))
    restarts.cut(9, lambda: log(80))
    restarts.forget(8)
    assert restarts.as_of(7, newest=log(90)) == log(90)
