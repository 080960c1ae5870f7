"""A savepoint holds a job as of one batch, and a job that begins with it continues as if nothing had happened."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from holdfast import Job
from holdfast.schemas import commands
from holdfast.schemas.commands import Command
from holdfast.schemas.plans import Plan, Rejection, Status, decode_status
from holdfast.schemas.savepoints import Start
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.audit.replaying import replay
from holdfast.services.client.holding import Holding
from holdfast.services.client.places import StorePlace
from holdfast.services.client.replacing import check_begins
from holdfast.services.client.savepoint_files import read_manifest, read_pieces
from holdfast.services.client.saving import Saved, begin_with, save
from holdfast.services.client.submitting import Submitted, append
from holdfast.services.client.updating import Updated, undone, update
from holdfast.services.controller.conductor import Conductor
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.effects import Means
from holdfast.services.controller.polling import Polling
from holdfast.services.kernel.errors import CommandFailed, JobRejected
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.jobs import read_admitted
from holdfast.services.planning.carrying import NOWHERE
from holdfast.services.view.door import Door, Whereabouts
from holdfast.testing import JobRun

pytestmark = pytest.mark.slow

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

        return save(self.door, self.plan, path, 60, Holding(self.door, self.plan, wait))

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

        hold = Holding(self.door, self.plan, wait)
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
        cluster._controller = Polling(conductor, cluster.log, cluster._time_ms)

    def rows(self) -> dict[str, list[str]]:
        """Final rows of windows, and the newest of every other key."""
        found = {query: self.run.rows(query).to_dicts() for query in self.raw["queries"]}
        keyed = found.keys() & {"totals", "scored", "once"}
        newest = {query: {row["carrier"]: row for row in found[query]} for query in keyed}
        found |= {query: [*rows.values()] for query, rows in newest.items()}
        return {query: sorted(json.dumps(row, default=str) for row in rows) for query, rows in found.items()}


class InMemory:
    """Implements Replacing. meanwhile: once a turn. before: when all was brought and nothing is asked for."""

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


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, list[str]]:
    site = Site(JOB)
    feed(site, 0, 100)
    return site.rows()


def feed(site: Site, first: int, last: int) -> None:
    if not first and "names" in site.raw["sources"]:
        site.run.feed("names", [{"carrier": carrier, "name": carrier * 3} for carrier in "ABC"])
    site.run.feed("given", flights(first, last))


def test_a_job_that_begins_with_a_savepoint_gives_what_it_would_have_given(
    tmp_path: Path, undisturbed: dict[str, list[str]]
) -> None:
    site = Site(JOB)
    feed(site, 0, 60)
    site.ask("pause")
    site.run.advance(1)
    saved = site.save(tmp_path / "one")
    assert saved.silence_s is None
    delivered = site.rows()
    site.end()
    plan = site.begin(tmp_path / "one", site.raw)
    assert plan.first_batch == saved.manifest.batch > 0
    site.run.advance(1)
    assert site.rows() == delivered, "nothing is delivered twice"
    feed(site, 60, 80)
    site.run.kill()
    site.run.restore()
    feed(site, 80, 100)
    assert site.rows() == undisturbed
    report = replay(site.cluster.log, site.door.topics, "flights")
    assert report.exact
    assert report.rows.results > 0


def test_a_job_that_was_not_paused_continues_and_what_it_delivers_meanwhile_is_in_neither(tmp_path: Path) -> None:
    site = Site(JOB)
    feed(site, 0, 30)
    saved = site.save(tmp_path / "one")
    assert saved.silence_s is not None
    feed(site, 30, 60)
    assert site.cluster.all_taken()
    site.end()
    site.begin(tmp_path / "one", site.raw)
    site.cluster.until(lambda: site.cluster.all_taken() or None)
    site.run.advance(1)
    assert replay(site.cluster.log, site.door.topics, "flights").exact


def changed(**operators: Any) -> dict[str, Any]:
    return {**JOB, "operators": JOB["operators"] | operators}


def problems(site: Site, path: Path, raw: dict[str, Any], **how: Any) -> dict[str, str]:
    with pytest.raises(JobRejected) as rejected:
        site.begin(path, raw, **how)
    return {one.path: one.message for one in rejected.value.problems}


def test_state_is_kept_where_it_means_the_same_and_everything_else_is_refused_with_reasons(tmp_path: Path) -> None:
    site = Site(JOB)
    feed(site, 0, 30)
    site.save(tmp_path / "one")
    site.end()
    other = changed(
        totals={**JOB["operators"]["totals"], "aggregate": {"n": "count()"}},
        hourly={**JOB["operators"]["hourly"], "window": {"size_s": 7200}},
        late={"select": ["carrier", "dest", "delay", "at", "1 AS one"], "input": "given"},
        once={**JOB["operators"]["once"], "parallelism": 3},
    )
    found = problems(site, tmp_path / "one", other, drop=("totls",), reread=("giv",))
    assert set(found) == {
        "drop_state",
        "reread",
        "operators.totals",
        "operators.hourly",
        "operators.once",
        "operators.named",
    }
    assert not [name for name in site.cluster.log.topics() if "savepoints" in name]
    less = {**JOB, "operators": {n: o for n, o in JOB["operators"].items() if n not in ("scored", "scoring", "named")}}
    less["queries"] = {name: JOB["queries"][name] for name in ("totals", "hourly", "once")}
    less["sources"] = {"given": JOB["sources"]["given"]}
    found = problems(site, tmp_path / "one", less)
    assert set(found) == {"operators.scored", "operators.named", "operators.names"}
    plan = site.begin(tmp_path / "one", less, drop=("scored", "named", "names"))
    assert plan.seed is not None
    assert plan.seed.kept == ("given", "hourly", "late", "once", "totals")


def test_a_damaged_or_later_savepoint_is_refused_and_no_directory_is_written_over(tmp_path: Path) -> None:
    site = Site(JOB)
    path = tmp_path / "one"
    feed(site, 0, 30)
    with pytest.raises(CommandFailed, match="somebody has resumed"):
        site.save(path, during=lambda: site.ask("resume"))
    assert not [*tmp_path.iterdir()]
    site.save(path)
    with pytest.raises(CommandFailed, match="is there already"):
        site.save(path)
    manifest = read_manifest(path)
    (file, *_) = (path / task.file for task in manifest.tasks.values() if task.file)
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(CommandFailed, match=r"cannot be read|is not as it was written"):
        list(read_pieces(path, manifest.tasks))
    with pytest.raises(CommandFailed):
        site.begin(path, site.raw)
    assert not [name for name in site.cluster.log.topics() if "savepoints" in name]
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace('"format": 1', '"format": 2', 1))
    with pytest.raises(CommandFailed, match="is a savepoint of format 2, and this release reads up to 1"):
        read_manifest(path)


# -- updates ----------------------------------------------------------------------------------------------------------


def every(turns: int, what: Callable[[], None]) -> Callable[[], None]:
    """Does it once in so many turns."""
    count = 0

    def turn() -> None:
        nonlocal count
        count += 1
        if count % turns == 0:
            what()

    return turn


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


def test_updates_lose_and_double_nothing_whatever_ends_amid_them(undisturbed: dict[str, list[str]]) -> None:
    site, seen = Site(SMALL), set[str]()

    def kill_worker() -> None:
        if site.cluster.worker is not None:
            site.cluster.kill_worker()
            site.cluster.start_worker()

    feed(site, 0, 30)
    done = site.update(site.raw)
    assert (done.entries > 0, done.batch) == (True, site.plan.first_batch)
    feed(site, 30, 50)
    site.update({**site.raw, "batch_interval_ms": 20}, meanwhile=every(3, site.next_controller))
    feed(site, 50, 60)
    site.update(site.raw, meanwhile=every(400, kill_worker))
    feed(site, 60, 80)
    site.update(rescaled(), Start("", "", renamed={"sums": "totals"}), meanwhile=every(7, site.next_controller))
    assert site.plan.seed is not None
    assert set(site.plan.seed.rescaled) == {"sums", "hourly"}
    feed(site, 80, 90)
    former, start = undone(site.door, site.plan, NOWHERE)
    assert start.renamed == {"totals": "sums"}
    site.update(former.spec, structs.replace(start, proven_after=10))
    assert undone(site.door, site.plan, NOWHERE)[0].seed is not None, "it is on trial"
    assert site.plan.seed is not None
    assert set(site.plan.seed.kept) == {"given", "late", "totals", "hourly"}
    feed(site, 90, 100)
    assert site.rows() == {query: undisturbed[query] for query in SMALL["queries"]}
    report = replay(site.cluster.log, site.door.topics, "flights")
    assert report.exact
    site.run.advance(12)
    with pytest.raises(CommandFailed, match="is proven healthy: 10 batches processed since the update, and stays"):
        undone(site.door, site.plan, NOWHERE)
    seen |= {name for name in site.cluster.log.topics() if ".savepoints." in name}
    assert seen == {site.plan.seed.topic if site.plan.seed else ""}, "those of former generations went with them"


def test_a_job_that_was_paused_is_paused_after_an_update_too_until_somebody_resumes_it(
    undisturbed: dict[str, list[str]],
) -> None:
    site = Site(SMALL)
    feed(site, 0, 30)
    site.ask("pause")
    site.run.advance(1)
    for _ in range(2):  # the second one of a job that has done nothing of its own
        site.update(site.raw, meanwhile=every(5, site.next_controller))
    before = site.rows()
    records = [json.dumps(one).encode() for one in flights(30, 100)]
    site.cluster.feed("given", [records], 30)
    site.cluster.turn(500)
    assert site.rows() == before, "it takes nothing in"
    assert site.statuses()[-1] == "paused"
    site.ask("resume")
    site.cluster.until(lambda: site.cluster.all_taken() or None)
    site.run.advance(1)
    assert site.rows() == {query: undisturbed[query] for query in SMALL["queries"]}
    assert replay(site.cluster.log, site.door.topics, "flights").exact


def test_an_update_of_a_job_at_rest_waits_for_no_timer() -> None:
    site = Site(SMALL)
    feed(site, 0, 30)
    began_ms = list[int]()

    def paused() -> None:
        cuts = site.door.topics.job(site.plan.job, site.plan.generation).cuts
        if not began_ms and any(b"pause" in (one.value() or b"") for one in site.cluster.log.scan(Partition(cuts, 0))):
            began_ms.append(site.cluster._now_ms)

    site.update(site.raw, meanwhile=paused)
    assert site.cluster._now_ms - began_ms[0] < 300


def test_an_update_that_is_refused_leaves_the_job_running_as_it_was() -> None:
    site = Site(SMALL)
    feed(site, 0, 30)
    first = site.plan
    totals = {**JOB["operators"]["totals"], "aggregate": {"n": "count()"}}
    other = {**SMALL, "operators": SMALL["operators"] | {"totals": totals}}
    for before, raw, said in (
        (lambda: None, other, "cannot be kept: its aggregate was"),
        (lambda: site.ask("resume"), site.raw, "somebody has resumed or ended it"),
    ):
        with pytest.raises(JobRejected, match=said):
            site.update(raw, before=before)
        assert site.plan is first
        site.run.advance(2)
        assert not [name for name in site.cluster.log.topics() if ".savepoints." in name]
        assert not [change for change in site.placed() if first.generation not in change], "nothing stands by any more"
    feed(site, 30, 60)
    assert site.cluster.all_taken(), "it was resumed"
    site.update(other, Start("", "", drop_state=("totals",)))
    feed(site, 60, 61)
    assert site.plan.seed is not None
    assert "totals" not in site.plan.seed.kept
    assert replay(site.cluster.log, site.door.topics, "flights").exact


GOLDEN = Path(__file__).with_name("savepoint_of_format_1")
"""Of SMALL, after 30 flights. Written by `python -m tests.unit.client.test_savepoints`, once for each format."""


def test_a_savepoint_of_each_format_so_far_is_read(undisturbed: dict[str, list[str]]) -> None:
    site = Site(SMALL)
    feed(site, 0, 30)
    site.run.advance(10)
    before = site.rows()
    site.end()
    plan = site.begin(GOLDEN, site.raw)
    assert plan.seed is not None
    assert set(plan.seed.kept) == {"given", "late", "totals", "hourly"}
    site.run.advance(1)
    assert site.rows() == before
    feed(site, 30, 100)
    assert site.rows() == {query: undisturbed[query] for query in SMALL["queries"]}


if __name__ == "__main__":
    made = Site(SMALL)
    feed(made, 0, 30)
    made.ask("pause")
    made.run.advance(1)
    made.save(GOLDEN)
