"""What Prometheus may ask of a controller: how many jobs there are, by their state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from services.controller.core.controller import Controller
from services.controller.core.status import STATES
from services.log.metrics import REFUSED, Metric, Read, Sample

JOBS = Metric("holdfast_jobs", "gauge", ("state",), "Jobs that the controller knows, by how far their life has come")
OF_CONTROLLER = (JOBS, REFUSED)


def of_jobs(core: Controller) -> Read:
    """Each job once, ended and rejected ones too."""

    def read() -> Iterator[Sample]:
        states = Counter(STATES[job.life.phase] for job in list(core.jobs.values()))
        for state in sorted(states):
            yield JOBS.of(states[state], state)

    return read
