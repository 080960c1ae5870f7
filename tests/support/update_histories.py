"""Histories of updates in memory: a job that is updated again and again, amid faults at moments that a seed chooses.

Workers, controllers, recovery and commands end at any turn of the update; somebody resumes the job amid it; records
come all the while. Every generation has to be exact by replay, and the rows of all together those of a job that nobody
disturbed. Run as a program it says how many updates it has made: `python -m tests.support.update_histories 200`.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

from holdfast.schemas.savepoints import Start
from holdfast.services.audit.replay import replay
from holdfast.services.client.hold import Hold
from holdfast.services.client.update import update
from holdfast.services.kernel.errors import CommandFailed, JobRejected
from holdfast.services.log.late.jobs import read_admitted
from holdfast.services.recovery.polled_replica import PolledReplica as RecoveryPolling
from tests.support.saved_site import SMALL, InMemory, Site, flights, rescaled

FAULTS = ("worker", "controller", "recovery", "command", "resume", "records")
MOMENTS = 20
"""Turns from the beginning of an update within which faults come: an update without any takes about as many."""


class Killed(BaseException):
    """The command was killed: nothing of it runs any more."""


class Wrong(AssertionError):
    """The history is not what it has to be."""


class History:
    """One job. updates: done so far; faults: met so far, by kind."""

    def __init__(self, seed: int) -> None:
        self.random, self.site = Random(seed), Site(SMALL)
        self.updates, self.faults = 0, Counter[str]()
        self._fed = self._turns = self._recoveries = 0
        self._due: list[tuple[int, str]] = []
        self._renamed = False

    def run(self, updates: int) -> None:
        """Raises Wrong."""
        while self.updates < updates:
            self._feed()
            self._settle()
            self._replayed()
            self._update()
        self._feed()
        self._settle()
        self._replayed()
        self._compare()

    # -- an update ----------------------------------------------------------------------------------------------------

    def _update(self) -> None:
        self._turns = 0
        kinds = self.random.sample(FAULTS, self.random.randrange(4))
        self._due = sorted((self.random.randrange(MOMENTS), kind) for kind in kinds)
        before = self.site.plan.generation
        raw, start = self._next()
        try:
            update(
                self.site.door,
                self.site.plan,
                raw,
                start,
                60,
                _Holding(self),
                InMemory(self.site, self.turn, self._ask),
            )
        except (Killed, JobRejected, CommandFailed):
            self._due = []
            self._after_failure(before)
        if self.site.plan.generation != before:
            self.updates += 1
            self._renamed ^= bool(start.renamed)

    def _next(self) -> tuple[dict[str, Any], Start]:
        """The next job file: with another number of tasks and a name, or another interval."""
        if self._renamed:
            if self.random.random() < 0.5:
                return SMALL, Start("", "", renamed={"totals": "sums"})
            return {**rescaled(), "batch_interval_ms": self.random.randrange(5, 50)}, Start("", "")
        if self.random.random() < 0.3:
            return rescaled(), Start("", "", renamed={"sums": "totals"})
        return {**SMALL, "batch_interval_ms": self.random.randrange(5, 50)}, Start("", "")

    def _ask(self) -> None:
        self.turn()
        self.site.cluster.turn(50)

    def _after_failure(self, before: str) -> None:
        """A person looks: either the next generation begins, or the job is there and is resumed."""
        self.site.cluster.turn(500)
        known = read_admitted(self.site.cluster.log, self.site.door.topics)
        newest = known.named("flights")  # one may stand by besides: nobody asks for it any more
        assert newest is not None
        if newest.generation == before:
            self.site.ask("resume")
        self.site.plan = self.site.run._plan = newest
        self.site.cluster.until(lambda: self.site.cluster.all_are(newest, "running") or None)

    # -- faults -------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """A turn of the update has passed."""
        self._turns += 1
        while self._due and self._due[0][0] <= self._turns:
            self._strike(self._due.pop(0)[1])

    def _strike(self, kind: str) -> None:
        self.faults[kind] += 1
        cluster = self.site.cluster
        match kind:
            case "worker" if cluster.worker is not None:
                cluster.kill_worker()
                cluster.start_worker()
            case "controller":
                self.site.next_controller()
            case "recovery":
                self._recoveries += 1
                cluster._recovery = RecoveryPolling(
                    f"recovery-{self._recoveries}", cluster.log, cluster._cluster, 20,
                    now_us=lambda: cluster._now_ms * 1000,
                )  # fmt: skip
            case "command":
                raise Killed
            case "resume":
                self.site.ask("resume")
                self._feed()
            case "records":
                self._feed()

    def _feed(self) -> None:
        count = self.random.randrange(1, 12)
        records = [json.dumps(one).encode() for one in flights(self._fed, self._fed + count)]
        self._fed = self.site.cluster.feed("given", [records], self._fed)

    # -- checks -------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        cluster = self.site.cluster
        cluster.until(lambda: (cluster.all_are(self.site.plan, "running") and cluster.all_taken()) or None)
        cluster.turn(700)

    def _replayed(self) -> None:
        report = replay(self.site.cluster.log, self.site.door.topics, "flights")
        if not report.exact:
            raise Wrong(f"after {self.updates} updates: {report}")

    def _compare(self) -> None:
        """The rows are those of the same records in a job that nobody disturbed, and no total came twice."""
        of_carrier: dict[str, list[int]] = {}
        for row in self.site.run.rows("totals").to_dicts():
            of_carrier.setdefault(row["carrier"], []).append(row["n"])
        if any(n >= after for counts in of_carrier.values() for n, after in pairwise(counts)):
            raise Wrong(f"after {self.updates} updates totals came twice: {of_carrier}")
        calm = Site(SMALL)
        calm.cluster.feed("given", [[json.dumps(one).encode() for one in flights(0, self._fed)]], 0)
        calm.cluster.until(lambda: calm.cluster.all_taken() or None)
        calm.cluster.turn(700)
        if (found := self.site.rows()) != (wanted := calm.rows()):
            raise Wrong(f"after {self.updates} updates {found} in place of {wanted}")


class _Holding(Hold):
    """Of a command that may be killed."""

    def __init__(self, history: History) -> None:
        self._history, self._killed = history, False
        super().__init__(history.site.door, history.site.plan, self._pass)

    def _pass(self) -> None:
        try:
            self._history.turn()
        except Killed:
            self._killed = True
            raise
        self._history.site.cluster.turn(5)

    def release(self) -> None:
        if not self._killed:
            super().release()


def main(updates: int) -> None:
    """Histories of 20 updates each, one seed after the other."""
    done, faults, seed, began_s = 0, Counter[str](), 0, time.monotonic()
    while done < updates:
        history = History(seed)
        history.run(min(20, updates - done))
        done, seed = done + history.updates, seed + 1
        faults += history.faults
        print(f"{done} updates, {dict(faults)}, {time.monotonic() - began_s:.0f} s: exact", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
