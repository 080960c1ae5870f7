"""Formats of the records on Kafka: those that a release reads, and the one that its processes write.

A change that the previous release would read wrongly raises NEWEST, and writers keep the old format until `assignments`
names the new one, which happens once every live process reads it. A field that a reader may leave out needs no new
format. Source: PROTOCOL 2 and 8, decision 0078.
"""

from __future__ import annotations

import os
from pathlib import Path

FIRST = 1
PLANS = 2
"""Jobs have replication plans. The release before takes a change by an older plan for valid, and leaves the plan out of
its own changes.
"""
TENTATIVE = PLANS
"""Frames may be flagged tentative, from the same release on. The release before takes such a frame for a stable one."""
LEVEL = PLANS
"""A pause lets source tasks that are behind reach the newest batch, from the same release on. The release before takes
their cuts for invalid.
"""
CARRIED = PLANS
"""A plan may begin with state that is carried over (`seed`), also to other names and numbers of tasks, from the same
release on. The release before would begin such a job with nothing.
"""
CLOCKED = PLANS
"""Frames may hold the time at which their batch was cut, from the same release on. The release before would take such a
frame for damaged.
"""
CLOCKED_SETTINGS = ("clock", "ask")
"""Settings of a Python operator that need a cluster which has come to CLOCKED."""
PRETENDED = "HOLDFAST_TEST_FORMAT"
"""For tests only: the newest format, or `@` and a file that holds it, if it is there."""


def _newest() -> int:
    said = os.environ.get(PRETENDED, "")
    if said.startswith("@"):
        said = Path(said[1:]).read_text() if Path(said[1:]).exists() else ""
    return int(said or PLANS)


NEWEST = _newest()
"""The newest format that this release reads; it also reads the one before."""


def reads(format: int) -> bool:
    """True if a process of this release reads this format."""
    return max(FIRST, NEWEST - 1) <= format <= NEWEST


def written(cluster: int) -> int:
    """Returns the format to write.

    cluster: the format that `assignments` names; FIRST if it names none.
    """
    return max(cluster, NEWEST - 1, FIRST)


def too_old(cluster: int) -> str:
    """Returns why a process of this release cannot take part; empty if it can."""
    if cluster <= NEWEST:
        return ""
    return f"the cluster writes format {cluster}, and this process reads {NEWEST} at most: start a newer release of it"
