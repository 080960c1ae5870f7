"""All that a console shows of a job on a real Kafka, then an action: for logins that may do one or the other."""

from __future__ import annotations

import time

from holdfast.services.client import submission
from holdfast.services.view.door import Door
from holdfast.services.view.live import LiveJob, LiveView
from holdfast.services.view.rows import newest_letters, newest_rows
from tests.support.deadlines import HANG_S


def show(door: Door, name: str) -> None:
    """Looks at everything, asserts that it is there, then asks for a pause of the job, which writes."""
    live = LiveView(door)
    try:
        job = _whole(live, name)
    finally:
        live.close()
    assert job.status.queries
    assert any(newest_rows(door, job.plan, one.query, 5) for one in job.status.queries)
    assert newest_letters(door, door.topics.job(name, job.line.generation), 5), "the job is given some"
    submission.command(door, "pause", job.line, HANG_S)


def _whole(live: LiveView, name: str) -> LiveJob:
    """The job once its copies, their costs and the ends of its sources are known."""
    deadline_s = time.monotonic() + HANG_S
    while time.monotonic() < deadline_s:
        live.turn(0.1)
        job = live.picture(int(time.time() * 1000)).job(name)
        if job is not None and job.lags and job.costs.copies and all(one.copies for one in job.units):
            return job
    raise AssertionError(f"job {name} is not shown as a whole within {HANG_S:g} s")
