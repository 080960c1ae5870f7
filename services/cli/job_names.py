"""Names of jobs for the completion of a shell: of the cluster that runs here, or that HOLDFAST_KAFKA names."""

from __future__ import annotations

import threading

PATIENCE_S = 1.5
"""A person who presses a key waits no longer; without an answer nothing is completed."""


def job_names(incomplete: str) -> list[str]:
    """Names of jobs that have not ended and begin with the given text."""
    found: list[str] = []
    reading = threading.Thread(target=_read, args=(found,), daemon=True)
    reading.start()
    reading.join(PATIENCE_S)
    return sorted(name for name in set(found) if name.startswith(incomplete))


def _read(found: list[str]) -> None:
    from holdfast.services.cli.whereabouts import connected, find
    from holdfast.services.view.cluster import OVER
    from holdfast.services.view.reader import read_jobs

    try:
        find(None, None)  # an error of `connected` would stand in the middle of the line
        with connected(None, None) as door:
            found += [job.job for job in read_jobs(door).jobs() if job.state not in OVER]
    except Exception:  # the command itself will report the error
        return
