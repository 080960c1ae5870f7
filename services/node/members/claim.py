"""Claims the names of a host's processes before the first of them starts; clashes.py finds possible clashes."""

from __future__ import annotations

import os
import time

from holdfast.schemas.topics import ClusterTopics
from holdfast.services.log.protocol import Log
from holdfast.services.node.members.clashes import Clash, Neighbours, living_stranger, look_around, running_at
from holdfast.services.node.members.naming import Naming
from holdfast.services.node.members.notices import Notices


class Claim:
    """A supervisor's claim to the names of its processes, on a shared Kafka."""

    def __init__(self, naming: Naming, topics: ClusterTopics, address: str) -> None:
        self._naming = naming
        self._topics = topics
        self._address = address
        self._claimed = False

    def newest(self, log: Log, heartbeat_interval_ms: int) -> dict[str, str]:
        """The newest incarnations of this host's names, by worker. Raises Clash."""
        neighbours = self.neighbours()
        stranger = living_stranger(log, self._topics, neighbours, heartbeat_interval_ms)
        if stranger is not None:
            raise self.clash(running_at(stranger))
        return neighbours.incarnations

    def take(self, log: Log, notices: Notices) -> None:
        """Claims the names before a worker starts, whose incarnations would sort behind another supervisor's. Raises
        Clash.
        """
        self._claimed = True
        notices.claim(self._first_name, self._address)
        neighbours = self.neighbours()
        look_around(log, self._topics, neighbours)
        holder = neighbours.holder(int(time.time() * 1000))
        if holder not in ("", self._address):
            raise self.clash(f"a supervisor at {holder} has just started with these names")

    def give_back(self, notices: Notices) -> None:
        """Withdraws the claim, if there is one."""
        if self._claimed:
            notices.claim(self._first_name, self._address, back=True)

    def neighbours(self) -> Neighbours:
        return Neighbours(self._naming, self._address)

    def clash(self, what: str) -> Clash:
        return Clash(what, self._naming.host, os.getpid(), self._address)

    @property
    def _first_name(self) -> str:
        """The name that stands for all names of the host in a claim."""
        return self._naming.name("worker-1")
