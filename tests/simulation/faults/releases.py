"""Faults while the release changes: workers come back with other versions and formats."""

from __future__ import annotations

from tests.simulation.faults.fault import Fault
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.jobs import NAME
from tests.simulation.processes.services import ODD_VERSIONS, OTHER_VERSIONS
from tests.support.odd import ODD

UPGRADE_MS = 200
ACCEPTED_US = 2_000_000
"""By then a command `accept` is answered."""


def upgraded(cluster: Cluster, fault: Fault) -> None:
    """The worker comes back with other versions of libraries, for so long; once all units have had a leader. detail:
    whether these give equal bytes.
    """
    odd, now_us = fault.detail == ODD, cluster.timeline.now_us
    accepting = cluster.accepted_us >= 0 and now_us - cluster.accepted_us < ACCEPTED_US
    if not cluster.placed or (odd and accepting):
        if cluster.healed_us is None:
            cluster.timeline.after(UPGRADE_MS * 1000, lambda: upgraded(cluster, fault))
        return
    for name in fault.target:
        cluster.upgraded[name] = ODD_VERSIONS if odd else OTHER_VERSIONS
        cluster.crash(name, UPGRADE_MS, notice=True)
        cluster.timeline.after(fault.ms * 1000, lambda name=name: _downgraded(cluster, name))  # type: ignore[misc]


def accept(cluster: Cluster, fault: Fault) -> None:
    """The user lets the versions lead that run now, none of which gives other bytes."""
    if cluster.placed and ODD_VERSIONS not in (process.versions for process in cluster.workers()):
        cluster.accepted_us = cluster.timeline.now_us
        cluster.submit({"command": "accept", "job": NAME})


def newer(cluster: Cluster, fault: Fault) -> None:
    """The worker comes back with the release that reads the newest format, for good."""
    for name in fault.target:
        if name in cluster.old:
            cluster.old.discard(name)
            cluster.crash(name, fault.ms, notice=fault.detail == "")


def _downgraded(cluster: Cluster, name: str) -> None:
    if name in cluster.upgraded:
        del cluster.upgraded[name]
        cluster.crash(name, UPGRADE_MS, notice=True)
