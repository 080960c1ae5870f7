"""Number of Spark drivers that the admitted jobs need, and start of these jobs.

Source: PROTOCOL 12. A reader of plans loads what plans are checked with, polars among it: a quarter of a second of a
core, which the parent of a service that is not Spark's does without.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from holdfast.schemas.plans import Plan, decode_status
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.admitted import Admitted, decode
from holdfast.services.kernel.errors import PositionGone, Retriable
from holdfast.services.log.late.jobs import read_jobs
from holdfast.services.log.protocol import Log

ALONE = frozenset({"none", "passive"})
"""Schemes without a second copy."""
BEGINNING = frozenset({"accepted", "starting"})
"""States of a job that has not run yet."""


class SparkDemand:
    """Follows `jobs.plans` and `jobs.status`."""

    def __init__(self, log: Log, topics: ClusterTopics) -> None:
        self._log = log
        self._topics = topics
        self._admitted = Admitted()
        self._begun = False
        self._states: dict[str, str] = {}
        self._status = Partition(topics.status, 0)
        self._reader = log.reader("supervisor-plans", waits_long=True)

    def drivers(self) -> int:
        """Reads what has come; the number that is needed now. Where records were trimmed it begins again."""
        try:
            self._begin()
            chunks = self._reader.poll(0)
        except Retriable:
            chunks = []
        except PositionGone:
            chunks, self._begun = [], False
        for chunk in chunks:
            for message in chunk.messages:
                with suppress(msgspec.DecodeError):
                    if chunk.partition == self._status:
                        said = decode_status(message.value() or b"")
                        self._states[said.generation] = said.state
                    else:
                        self._admitted.read(decode(message.value() or b""))
        self._states = {g: state for g, state in self._states.items() if g in self._running() or state in BEGINNING}
        return max(map(needed, self._running().values()), default=0)

    def starting(self) -> bool:
        """True if a job that needs a driver is not known to run yet."""
        return any(needed(plan) and self._states.get(g, "starting") in BEGINNING for g, plan in self._running().items())

    def _running(self) -> dict[str, Plan]:
        return self._admitted.running()

    def _begin(self) -> None:
        """Reads the present jobs, once. Raises Retriable."""
        if not self._begun:
            jobs = read_jobs(self._log, self._topics)
            self._admitted = jobs.admitted
            self._begun = True
            begins = self._log.offsets([self._status], "start")
            self._reader.assign({Partition(self._topics.plans, 0): jobs.next, **begins})

    def close(self) -> None:
        self._reader.close()


def needed(plan: Plan) -> int:
    """Number of Spark drivers for a job."""
    schemes = [unit.scheme for unit in plan.units if unit.host == "spark"]
    if not schemes:
        return 0
    return 1 if all(scheme in ALONE for scheme in schemes) else 2
