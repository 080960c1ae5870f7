"""A savepoint holds a job as of one batch, and a job that begins with it continues as if nothing had happened."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from holdfast.schemas.savepoints import Start
from holdfast.schemas.topics import Partition
from holdfast.services.audit.replay import replay
from holdfast.services.client.savepoint_files import read_manifest, read_pieces
from holdfast.services.client.update import undone
from holdfast.services.kernel.errors import CommandFailed, JobRejected
from holdfast.services.planning.carried_state import NOWHERE
from tests.support.saved_site import JOB, SMALL, Site, feed, flights, rescaled

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, list[str]]:
    site = Site(JOB)
    feed(site, 0, 100)
    return site.rows()


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
