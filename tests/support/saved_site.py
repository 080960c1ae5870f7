"""A job in memory that commands save, end, update and begin again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast import Job
from holdfast.schemas import commands
from holdfast.schemas.commands import Command
from holdfast.schemas.plans import Plan, Rejection, Status, decode_status
from holdfast.schemas.savepoints import Start
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.client.hold import Hold
from holdfast.services.client.places import StorePlace
from holdfast.services.client.replacement import check_begins
from holdfast.services.client.savepoints import Saved, begin_with, save
from holdfast.services.client.submission import Submitted, append
from holdfast.services.client.update import Updated, update
from holdfast.services.controller.conductor import Conductor
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.effects import Means
from holdfast.services.controller.polled_conductor import PolledConductor
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.jobs import read_admitted
from holdfast.services.planning.carried_state import NOWHERE
from holdfast.services.view.door import Door, Whereabouts
from holdfast.testing import JobRun

FIELDS = {"carrier": "string", "dest": "string", "delay": "int", "at": "timestamp"}
JOB: dict[str, Any] = {
    "name": "flights",
    "sources": {
        "given": {"topic": "given", "fields": FIELDS, "event_time": "at", "parallelism": 2},
        "names": {"topic": "names", "fields": {"carrier": "string", "name": "string"}, "table": ["carrier"]},
    },
    "operators": {
        "late": {"filter": "delay > 0", "input": "given"},
        "totals": {"aggregate": {"n": "count()", "sum": "sum(delay)"}, "key": ["carrier"], "input": "late",
                   "parallelism": 2},
        "hourly": {"aggregate": {"n": "count()"}, "key": ["dest"], "input": "late", "window": {"size_s": 3600},
                   "parallelism": 2},
        "once": {"dedup": {"within_s": 3600}, "key": ["carrier"], "input": "given"},
        "named": {"join": {"left": "late", "right": "names", "on": ["carrier"]}},
        "scored": {"python": "tests.support.scoring:Score", "params": {"threshold": 15}, "input": "scoring",
                   "key": ["carrier"]},
        "scoring": {"select": ["carrier", "delay AS dep_delay"], "input": "given"},
    },
    "queries": {name: {"input": name, "sink": {"topic": f"{name}-rows"}}
                for name in ("totals", "hourly", "once", "named", "scored")},
}  # fmt: skip
SMALL = {
    **JOB,
    "sources": {"given": JOB["sources"]["given"]},
    "operators": {name: JOB["operators"][name] for name in ("late", "totals", "hourly")},
    "queries": {name: JOB["queries"][name] for name in ("totals", "hourly")},
}
"""Less to deploy, by jobs that do so again and again."""


def flights(first: int, last: int) -> list[dict[str, object]]:
    return [
        {
            "carrier": "ABC"[i % 3],
            "dest": "XY"[i % 2],
            "delay": i % 7 - 1,
            "at": f"2026-01-01T{i // 10:02}:0{i % 10}:00Z",
        }
        for i in range(first, last)
    ]


class Site:
    """A job under test whose cluster commands reach. The time that they wait passes there."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.run = JobRun(Job.model_validate(job))
        self.cluster = self.run._cluster
        self.plan: Plan = self.run._plan
        self.raw = self.run._spec.as_plain()
        self.controllers = 0
        self.run.advance(11)  # every process is known to read the newest format

    @property
    def door(self) -> Door:
        log = self.cluster.log
        return Door(log, ClusterTopics("local"), log.topics(), Whereabouts(Path(), "memory", "local", True))

    def save(self, path: Path | StorePlace, during: Callable[[], None] = lambda: None) -> Saved:
        def wait() -> None:
            during()
            self.cluster.turn(10)

        return save(self.door, self.plan, path, 60, Hold(self.door, self.plan, wait))

    def ask(self, command: str) -> None:
        append(self.door, commands.encode(Command(command, "flights")))

    def end(self) -> None:
        self.ask("cancel")
        self.cluster.until(lambda: self.cluster.has_ended() or None)

    def begin(
        self, path: Path | StorePlace, raw: dict[str, Any], drop: tuple[str, ...] = (), reread: tuple[str, ...] = ()
    ) -> Plan:
        """Submits the job with the savepoint; returns once it runs. Raises JobRejected."""
        start = begin_with(self.door, raw, path, Start("", "", drop, reread))
        try:
            self.submit(raw)
        except JobRejected:
            self.door.log.delete([start.topic])
            raise
        return self.plan

    def submit(self, raw: dict[str, Any], meanwhile: Callable[[], None] = lambda: None) -> Submitted:
        offset = append(self.door, commands.encode(raw))

        def decided() -> Plan | Rejection | None:
            meanwhile()
            return self.decided(offset)

        def runs() -> bool | None:
            meanwhile()
            return (self.cluster.worker is not None and self.cluster.all_are(self.plan, "running")) or None

        found = self.cluster.until(decided)
        assert isinstance(found, Plan | Rejection)
        if isinstance(found, Rejection):
            raise JobRejected(found.problems)
        self.plan = self.run._plan = found
        self.cluster.until(runs)
        return Submitted(found.job, found.generation, Status(found.job, found.generation, "running", 0))

    def update(
        self,
        raw: dict[str, Any],
        start: Start = NOWHERE,
        meanwhile: Callable[[], None] = lambda: None,
        before: Callable[[], None] = lambda: None,
    ) -> Updated:
        """meanwhile: once a turn. before: when the state has been brought to the cluster, and nothing is submitted."""

        def wait() -> None:
            meanwhile()
            self.cluster.turn(20)

        hold = Hold(self.door, self.plan, wait)
        return update(self.door, self.plan, raw, start, 60, hold, InMemory(self, meanwhile, before))

    def decided(self, offset: int) -> Plan | Rejection | None:
        """The decision on what lies at that offset of `jobs.submit`."""
        known = read_admitted(self.cluster.log, self.door.topics)
        every: list[Plan | Rejection] = [*known.plans().values(), *known._rejections.values()]
        return next((one for one in every if one.generation.startswith(f"{offset}-")), None)

    def placed(self) -> list[str]:
        """Units that have copies."""
        standings = read_standings(self.cluster.log, Partition(self.door.topics.assignments, 0))
        return [unit for unit, change in standings.assigned.units().items() if change.copies]

    def statuses(self) -> list[str]:
        """States of the newest generation, as published."""
        scanned = self.cluster.log.scan(Partition(self.door.topics.status, 0))
        found = [decode_status(one.value() or b"") for one in scanned if one.value()]
        return [one.state for one in found if one.generation == self.plan.generation]

    def next_controller(self) -> None:
        """The one that runs does nothing more; the next one reads the logs."""
        cluster, self.controllers = self.cluster, self.controllers + 1
        conductor = Conductor(
            cluster.log, cluster._cluster, Controller(f"local-{self.controllers}"), cluster._time_ms,
            Means(cluster._versions, ["tests"]),
        )  # fmt: skip
        cluster._controller = PolledConductor(conductor, cluster.log, cluster._time_ms)

    def rows(self) -> dict[str, list[str]]:
        """Final rows of windows, and the newest of every other key."""
        found = {query: self.run.rows(query).to_dicts() for query in self.raw["queries"]}
        keyed = found.keys() & {"totals", "scored", "once"}
        newest = {query: {row["carrier"]: row for row in found[query]} for query in keyed}
        found |= {query: [*rows.values()] for query, rows in newest.items()}
        return {query: sorted(json.dumps(row, default=str) for row in rows) for query, rows in found.items()}


class InMemory:
    """Implements Replacement. meanwhile: once a turn. before: when all was brought and nothing is asked for."""

    def __init__(
        self, site: Site, meanwhile: Callable[[], None] = lambda: None, before: Callable[[], None] = lambda: None
    ) -> None:
        self.site, self.meanwhile, self.before = site, meanwhile, before

    def submit(self, raw: dict[str, Any], timeout_s: float) -> Submitted:
        self.before()
        return self.site.submit(raw, self.meanwhile)

    def stand_by(self, raw: dict[str, Any], timeout_s: float, meanwhile: Callable[[], None]) -> str:
        offset = append(self.site.door, commands.encode(raw))
        plan: Plan | Rejection = self._until(lambda: self.site.decided(offset))
        if isinstance(plan, Rejection):
            raise JobRejected(plan.problems)

        def ready() -> bool | None:
            meanwhile()
            check_begins(self._plan(plan.generation))
            own = [one for one in self.site.cluster._copies() if f"@{plan.generation}/" in one.unit]
            return (len(own) == len(plan.units) and all(one.batch > 0 for one in own)) or None

        self._until(ready)
        return plan.generation

    def take_over(self, job: str, generation: str, begin: Start, timeout_s: float) -> Submitted:
        self.before()
        append(self.site.door, commands.encode(Command("switch", job, generation=generation, begin=begin)))

        def runs() -> Plan | None:
            plan = self._plan(generation)
            check_begins(plan)
            up = self.site.cluster.worker is not None and self.site.cluster.all_are(plan, "running")
            return plan if up and not plan.stands_by else None

        plan = self._until(runs)
        self.site.plan = self.site.run._plan = plan
        return Submitted(job, generation, Status(job, generation, "running", 0))

    def give_up(self, job: str, generation: str) -> None:
        append(self.site.door, commands.encode(Command("switch", job, generation=generation)))

    def _plan(self, generation: str) -> Plan:
        found = read_admitted(self.site.cluster.log, self.site.door.topics).plan(generation)
        assert found is not None
        return found

    def _until(self, condition: Callable[[], Any]) -> Any:
        def look() -> Any:
            self.meanwhile()
            return condition()

        return self.site.cluster.until(look)


def feed(site: Site, first: int, last: int) -> None:
    if not first and "names" in site.raw["sources"]:
        site.run.feed("names", [{"carrier": carrier, "name": carrier * 3} for carrier in "ABC"])
    site.run.feed("given", flights(first, last))


def rescaled() -> dict[str, Any]:
    """SMALL with other numbers of tasks, and an operator of another name."""
    operators = SMALL["operators"]
    assert isinstance(operators, dict)
    return {
        **SMALL,
        "sources": {"given": {**JOB["sources"]["given"], "parallelism": 1}},
        "operators": {
            "late": operators["late"],
            "sums": {**operators["totals"], "parallelism": 3},
            "hourly": {**operators["hourly"], "parallelism": 1},
        },
        "queries": {**SMALL["queries"], "totals": {**JOB["queries"]["totals"], "input": "sums"}},
    }
