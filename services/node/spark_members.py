"""How many Spark drivers the jobs of a cluster need: none, one, or two where a driver is to have a standby.

Source: PROTOCOL 12: started only when a job needs it.
"""

from __future__ import annotations

import msgspec

from schemas.plans import Plan
from schemas.topics import ClusterTopics, Partition
from services.kernel.logs.admitted import Admitted, decode
from services.log.protocol import Log

ALONE = frozenset({"none", "passive"})
"""Schemes without a second copy."""


class SparkDemand:
    """Follows `jobs.plans`."""

    def __init__(self, log: Log, topics: ClusterTopics) -> None:
        self._admitted = Admitted()
        self._reader = log.reader("supervisor-plans")
        self._reader.assign({Partition(topics.plans, 0): 0})

    def drivers(self) -> int:
        """Reads what has come; the number that is needed now."""
        for chunk in self._reader.poll(0):
            for message in chunk.messages:
                try:
                    self._admitted.read(decode(message.value() or b""))
                except msgspec.DecodeError:
                    continue
        return max((needed(plan) for plan in self._admitted.running().values()), default=0)

    def close(self) -> None:
        self._reader.close()


def needed(plan: Plan) -> int:
    """Drivers for one job."""
    schemes = [unit.scheme for unit in plan.units if unit.host == "spark"]
    if not schemes:
        return 0
    return 1 if all(scheme in ALONE for scheme in schemes) else 2
