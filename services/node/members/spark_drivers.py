"""The Spark drivers of a cluster: none, one, or two where a driver is to have a standby.

Source: PROTOCOL 12: started only when a job needs it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.node.machine.artifacts import ArtifactSet, ArtifactsMissing, ensure
from holdfast.services.node.machine.java import JavaMissing
from holdfast.services.node.machine.messages import say
from holdfast.services.node.members.members import Member
from holdfast.services.planning import spark_installation

if TYPE_CHECKING:
    from holdfast.services.node.members.spark_demand import SparkDemand

LOOK_S = 0.25
AGAIN_S = 30.0
LINGER_S = 300.0
"""A Spark driver that no job needs any more stays for so long: the next job need not wait for a JVM."""
AFTER_S = 90.0
"""The longest time that the standby driver waits until the job of the first driver runs. A JVM and its first query keep
a processor busy for many seconds, and two at once delay the job."""


class SparkDrivers:
    """Drivers, as many as the jobs need. The standby starts when the job of the first driver runs. All drivers end
    together, some time after the last job that needed one.

    Args:
        driver: makes the driver of that number.
        changed: called after drivers have gone.
        most: of drivers here; a standby is then elsewhere.
    """

    def __init__(
        self,
        driver: Callable[[int, ArtifactSet], Member],
        changed: Callable[[], None],
        most: int | None = None,
    ) -> None:
        self._driver = driver
        self._changed = changed
        self._most = most
        self._demand: SparkDemand | None = None
        self._look_s = self._needed_s = self._first_s = 0.0
        self.members: list[Member] = []

    def follow(self, demand: SparkDemand) -> None:
        """Follows the demand from now on, as jobs can be admitted."""
        self._demand = demand

    def provide(self) -> None:
        """Makes the drivers that are missing, and ends those that have not been needed for a while."""
        if self._demand is None or time.monotonic() - self._look_s < LOOK_S:
            return
        self._look_s = time.monotonic()
        wanted = self._demand.drivers()
        wanted = wanted if self._most is None else min(wanted, self._most)
        while len(self.members) < wanted:
            waits = self.members and time.monotonic() - self._first_s < AFTER_S
            if waits and self._demand.starting():
                return
            if absent := spark_installation.missing():
                self._look_s += AGAIN_S
                say(f"no Spark driver can be started: {absent}; {spark_installation.COMMAND}")
                return
            try:
                self.members.append(self._driver(len(self.members) + 1, ensure("spark")))
            except (ArtifactsMissing, JavaMissing, HoldfastError, OSError) as error:
                self._look_s += AGAIN_S
                say(f"no Spark driver can be started: {error}")
                return
            self._first_s = self._first_s if len(self.members) > 1 else time.monotonic()
        if wanted or not self.members:
            self._needed_s = time.monotonic()
        elif time.monotonic() - self._needed_s > LINGER_S:
            gone, self.members = self.members, []
            for driver in gone:
                driver.stop()
            self._changed()

    def close(self) -> None:
        """Follows no jobs any more; the drivers are stopped like other members."""
        if self._demand is not None:
            self._demand.close()
