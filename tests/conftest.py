"""What all tests share: a real broker, which tests go together, and the logs of a cluster whose test has failed."""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test
from hypothesis import settings as hypothesis_settings
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# Before anything imports polars: one thread, as in a worker; small frames are handed to others for nothing.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

from holdfast.services.diagnostics.logger import drop_below
from tests.support.examples import most
from tests.support.kafka import running_kafka
from tests.support.processor_limit import LIMIT_S, processor_limit
from tests.support.processor_time import SPENT, by_folder, dearest, processor_s

TESTS = Path(__file__).parent
CLUSTERS, CLUSTER_MARKS = ("contract", "integration"), ("kafka", "spark", "docker", "alone")
"""Where ./scripts/test looks for tests with these marks: it would not run others."""
CONTAINERS, BROKER = "docker", "session_broker"
"""Marks: all files with one of these go to one process of xdist."""
MOST_SAID = 8_000
"""Characters of an exception below the logs."""
DEAREST = 12
# Without it, `up --kafka` asks for a secret.
os.environ.setdefault("HOLDFAST_CLUSTER_SECRET", "off")

# To look for garbage as often as usual takes a sixth of the collection of tests, and a thirtieth of the tests.
gc.set_threshold(50_000, 20, 50)

# Machines are shared and noisy: no deadline an example, and slow generation is no failure. A law that does not say how
# many examples it draws takes 30 in each run, other ones each time, and with --long hypothesis's own number.
hypothesis_settings.register_profile(
    "noisy", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=most(each_run=30, with_long=100)
)
hypothesis_settings.load_profile("noisy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that asks for the broker needs it, whether it says so or not: `-m "not kafka"` starts none.

    Those with containers come first, then those with Spark, those on the session's broker, the slow ones: processes
    that take one file after the other end together.

    Raises:
        UsageError: a test is not where tests with its marks are looked for.
    """
    for item in items:
        if "kafka" in getattr(item, "fixturenames", ()) and item.get_closest_marker("kafka") is None:
            item.add_marker(pytest.mark.kafka)
        if any(map(item.get_closest_marker, CLUSTER_MARKS)) and item.path.relative_to(TESTS).parts[0] not in CLUSTERS:
            raise pytest.UsageError(f"{item.nodeid}: tests marked {CLUSTER_MARKS} belong to one of {CLUSTERS}")
        if _in_memory(item):
            item.add_marker(pytest.mark.timeout(0))
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.drawn)
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> list[bool]:
    return [item.get_closest_marker(mark) is None for mark in (CONTAINERS, "spark", BROKER, "slow")]


_BEGAN_S = pytest.StashKey[float]()


def _in_memory(item: pytest.Item) -> bool:
    """It waits for no cluster, so that its limit is one of processor time."""
    return not any(map(item.get_closest_marker, CLUSTER_MARKS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[_BEGAN_S] = processor_s()
    with processor_limit(LIMIT_S) if _in_memory(item) else nullcontext():
        return (yield)


@cache
def _shares(folder: Path) -> bool:
    """Its conftest.py has a fixture that is there for more than one test."""
    file = folder / "conftest.py"
    return file.exists() and "fixture(scope=" in file.read_text()


@cache
def _marked(file: Path, mark: str) -> bool:
    """The scheduler knows the names of tests, and no marks."""
    return file.exists() and f"pytest.mark.{mark}" in file.read_text()


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Tests that share a cluster, a broker or a Spark session go to one process. `--dist loadgroup` does nothing on
    pytest 9.
    """

    def _split_scope(self, nodeid: str) -> str:
        """Their folder where that has a fixture for several tests, else their file. All containers go to one process:
        images are built once in a process, and each of these clusters has as many processes as three others. So do all
        that ask for the session's broker, which each process would start for itself.
        """
        file = TESTS.parent / nodeid.partition("::")[0]
        if _marked(file, CONTAINERS):
            return CONTAINERS
        if file.parent != TESTS and _shares(file.parent):
            return str(file.parent)
        return BROKER if _marked(file, BROKER) else str(file)

    def remove_node(self, node: WorkerController) -> str | None:
        """The test in which a process died counts as run: it would end the next process, too. What of its folders is
        left goes to others. (xdist hands out that test again, and folders with nothing left, at which a process waits
        for ever.)
        """
        work = self.assigned_work.pop(node)
        died_in: str | None = next((test for tests in work.values() for test, run in tests.items() if not run), None)
        if died_in is not None:
            for tests in work.values():
                if died_in in tests:
                    tests[died_in] = True
            self.workqueue.update({scope: tests for scope, tests in work.items() if not all(tests.values())})
            for other in self.assigned_work:
                self._reschedule(other)
        return died_in


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together | None:
    return Together(config, log) if config.getvalue("dist") == "loadscope" else None


def _crash_file(told: Mapping[str, Any]) -> Path:
    """Where a process of xdist writes what its threads were doing when it crashed. told: what xdist tells it."""
    return Path(gettempdir()) / f"crash-{told['testrunuid']}-{told['workerid']}.txt"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if told := getattr(config, "workerinput", None):
        file = _crash_file(told).open("w")
        faulthandler.enable(file)
        config.add_cleanup(lambda: _crash_file(told).unlink(missing_ok=True))


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(report: Any) -> None:
    file = _crash_file(report.node.workerinput)
    known = file.read_text() if file.exists() else ""
    report.sections.append(("what its threads did", known or "nothing is known: it was killed, or ended itself"))
    file.unlink(missing_ok=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows the logs of the cluster that a failed test ran on, and below them once more why it failed."""
    report = yield
    if call.excinfo is not None and "pyspark" in sys.modules and not isinstance(call.excinfo.value, Exception):
        from holdfast.services.spark.local.session import drop_connection

        drop_connection()  # a time-out may have come in the middle of an answer
    if report.when == "teardown":
        report.user_properties.append((SPENT, processor_s() - item.stash[_BEGAN_S]))
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if callable(logs := getattr(value, "logs", None)):
                report.sections.append((f"logs of {name}", logs()))
        if report.sections and call.excinfo is not None:
            report.sections.append((f"why {item.name} failed", call.excinfo.exconly()[:MOST_SAID]))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [report for reports in terminalreporter.stats.values() for report in reports
               if getattr(report, "when", "") == "teardown"]  # fmt: skip
    if lines := by_folder(reports):
        terminalreporter.write_sep("=", "processor time by folder, and of the dearest tests")
        for line in [*lines, *dearest(reports, DEAREST)]:
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _messages() -> Iterator[None]:
    """A command that runs here, as `holdfast try` does, drops messages of this process and allows users' code of its
    job alone: the next test has all of both.
    """
    yield
    drop_below(logging.NOTSET)
    python: Any = sys.modules.get("holdfast.services.kernel.operators.python")
    if python is not None:
        python.restrict(None)


@pytest.fixture(scope="session")
def _broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def kafka(request: pytest.FixtureRequest) -> str:
    """Bootstrap servers of one embedded broker for the whole session: give topics and groups names of their own.

    Without the mark, another process of xdist could run the file, and would start a broker for that file alone.
    """
    if request.node.get_closest_marker(BROKER) is None:
        pytest.fail(f"{request.node.nodeid} asks for the broker: its pytestmark lacks {BROKER}", pytrace=False)
    servers: str = request.getfixturevalue("_broker")
    return servers
