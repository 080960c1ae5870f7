"""The console of a real cluster in a real browser: each action, a takeover to its new standby, a lost broker."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

pytest.importorskip("nicegui", reason="the console is an extra: ./scripts/setup installs it")

from bench.rig.browser import Browser, program
from holdfast.services.view.live import SAID_S
from tests.support.cluster import LocalCluster, running
from tests.support.viewer import Viewer

JOB = "carriers"
"""The name of the example that the editor begins with."""
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(program() is None, reason="there is no Chromium here: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path_factory.mktemp("console"), {"HOLDFAST_CONSOLE": "on"})
    with running(made, workers=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def url(cluster: LocalCluster) -> str:
    return str(json.loads(cluster.call("console", "--json"))["address"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as made:
        yield made


@pytest.fixture(scope="module")
def viewer(browser: Browser, url: str) -> Viewer:
    browser.errors.clear()  # the browser has noted refusals
    browser.open(url)
    made = Viewer(browser, url.partition("/?")[0])
    made.sees("main .card")
    return made


@pytest.fixture(scope="module")
def job(cluster: LocalCluster, viewer: Viewer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Submitted by the form; every unit has its standby."""
    viewer.open("/submit")
    viewer.sees("main .card h2", "The plan")
    viewer.click("main button", "Submit")
    with viewer.asked("Submit", f"Job {JOB} runs"):
        pass
    records = tmp_path_factory.mktemp("records") / "flights.ndjson"
    rows = [{"carrier": "UA", "dep_delay": at % 60, "time_hour": f"2013-01-01T{at // 60:02d}:{at % 60:02d}:00Z"}
            for at in range(1_200)]  # fmt: skip
    records.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cluster.call("send", "flights", str(records))
    viewer.open(f"/jobs/{JOB}")
    protected(viewer)
    return JOB


def protected(viewer: Viewer) -> None:
    """Every unit has a standby again: the figure is no longer marked."""
    script = """(() => {
      const one = [...document.querySelectorAll('.figure')].find((one) => one.textContent.includes('Units protected'));
      const said = one && one.querySelector('dd').textContent.match(/(\\d+) of (\\d+)/);
      return Boolean(said) && said[1] === said[2] && !one.querySelector('dd.warn');
    })()"""
    viewer.until(script, "every unit is protected")


def test_a_wrong_token_shows_nothing(url: str, browser: Browser) -> None:
    """It runs before the browser is given the right one."""
    base = url.partition("/?")[0]
    for path in ("/", "/?token=wrong", f"/jobs/{JOB}", "/api/v1/jobs"):
        browser.open(base + path)
        assert "needs its token" in browser.value("document.body.innerText")


@pytest.mark.parametrize(
    ("action", "done", "state"), [("Pause", "is paused", "paused"), ("Resume", "is running", "running")]
)
def test_a_job_is_paused_and_resumed(viewer: Viewer, job: str, action: str, done: str, state: str) -> None:
    viewer.open(f"/jobs/{job}")
    viewer.menu("Actions", action)
    with viewer.asked(action, done):
        pass
    viewer.sees(".heading .chip", state)


def test_the_checkpoint_policy_changes(cluster: LocalCluster, viewer: Viewer, job: str) -> None:
    viewer.open(f"/jobs/{job}/checkpoints")
    viewer.menu("Actions", "Change the checkpoint policy")
    with viewer.asked("Change", "captures by individual") as choose:
        choose("Policy", "individual")
    viewer.sees(".figure", "individual")


def test_the_scheme_of_a_unit_changes(cluster: LocalCluster, viewer: Viewer, job: str) -> None:
    viewer.open(f"/jobs/{job}")
    viewer.menu("Actions", "Change a scheme")
    with viewer.asked("Change", "is under hybrid") as choose:
        choose("Scheme", "hybrid")
    viewer.sees("td", "hybrid")
    protected(viewer)


def test_a_unit_is_drilled_and_moved(cluster: LocalCluster, viewer: Viewer, job: str) -> None:
    viewer.open(f"/jobs/{job}")
    unit = cluster.asked("units", job)[0]["unit"]
    viewer.menu("Drill", unit)
    with viewer.asked("Drill", f"leads {unit}"):
        pass
    protected(viewer)
    copies = {one["worker"] for one in cluster.asked("units", job)[0]["copies"]}
    free = next(one["worker"] for one in cluster.asked("workers") if one["worker"] not in copies)
    viewer.menu("Actions", "Move a unit")
    with viewer.asked("Move", f"{unit} runs on {free} now") as choose:
        choose("Unit", unit)
        choose("To worker", free)
    protected(viewer)


def test_a_takeover_is_watched_from_the_kill_to_the_new_standby(
    cluster: LocalCluster, viewer: Viewer, job: str
) -> None:
    unit = cluster.asked("units", job)[0]
    leader = next(one["worker"] for one in unit["copies"] if one["role"] == "primary")
    viewer.open("/takeovers")
    before = viewer.browser.value("document.querySelectorAll('.card .bar-row .who').length")
    viewer.open("/")
    viewer.click(f"button[aria-label='kill {leader}']", "kill")
    with viewer.asked("Kill", f"{leader} was killed"):
        pass
    viewer.open("/takeovers")
    viewer.sees(".card h2", f"{leader} failed")
    viewer.until(f"document.querySelectorAll('.card .bar-row .who').length > {before}", "a bar more")
    viewer.sees(".card .bar-row", unit["unit"])
    viewer.sees("details", "leads")
    viewer.open(f"/jobs/{job}")
    protected(viewer)
    viewer.open("/")
    viewer.sees(".health.good", "All is well")
    viewer.sees("tr", leader)


@pytest.mark.long
def test_a_takeover_is_watched_from_the_stall_to_the_switch_back(
    cluster: LocalCluster, viewer: Viewer, job: str
) -> None:
    """The unit is under hybrid since its scheme was changed: whoever was only silent leads again.

    In each run: the takeover above is watched, and struck/test_failover.py has a stall and its switch back.
    """
    unit = cluster.asked("units", job)[0]
    assert unit["scheme"] == "hybrid"
    leader = next(one["worker"] for one in unit["copies"] if one["role"] == "primary")
    viewer.open("/")
    viewer.click(f"button[aria-label='stall {leader}']", "stall")
    with viewer.asked("Stall", f"{leader} continues after 5 s"):
        pass
    viewer.open("/takeovers")
    viewer.sees(".card h2", leader)  # with another one, if that was starved at the same time
    viewer.sees(".card .bar-row .moved", f"{leader} \u2192 ")
    viewer.open(f"/jobs/{job}")
    row = f"[...document.querySelectorAll('tr')].find((one) => one.cells[0].textContent === '{unit['unit']}')"
    viewer.until(f"{row}?.cells[2].textContent === '{leader}'", f"{leader} leads {unit['unit']} again")
    protected(viewer)


def test_a_lost_broker_is_said_and_heals_by_itself(cluster: LocalCluster, viewer: Viewer, job: str) -> None:
    """It is stopped, not killed: a parent would start another one at once."""
    known = cluster.files.cluster()
    assert known is not None
    viewer.open(f"/jobs/{job}")
    viewer.sees(".top .chip", "live")
    for pid in known.kafka_pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        viewer.sees(".banner", "What is shown is old", SAID_S + 120.0)
        viewer.sees(".top .chip", "silent")
    finally:
        for pid in known.kafka_pids:
            os.kill(pid, signal.SIGCONT)
    viewer.until("document.querySelector('.banner').textContent === ''", "the banner is gone")
    viewer.sees(".top .chip", "live")
    protected(viewer)


def test_dead_letters_are_replayed(viewer: Viewer, job: str) -> None:
    viewer.open(f"/jobs/{job}/dead-letters")
    viewer.menu("Actions", "Replay dead letters")
    with viewer.asked("Replay", "Sent nothing"):
        pass


def test_a_job_is_drained_and_its_page_says_so(viewer: Viewer, job: str) -> None:
    viewer.open(f"/jobs/{job}")
    viewer.menu("Actions", "Drain")
    with viewer.asked("Drain", "has ended"):
        pass
    viewer.sees(".empty", f"No job {job} runs")


def test_a_job_is_cancelled(viewer: Viewer, job: str) -> None:
    viewer.open("/submit")
    viewer.sees("main .card h2", "The plan")
    viewer.click("main button", "Submit")
    with viewer.asked("Submit", f"Job {job} runs"):
        pass
    viewer.open(f"/jobs/{job}")
    viewer.menu("Actions", "Cancel")
    with viewer.asked("Cancel", "has ended"):
        pass
    assert not [one for one in viewer.browser.errors if "ERR_" not in one], "no script of a page has failed"
