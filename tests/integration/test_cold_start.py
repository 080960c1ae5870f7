"""A first run on a cold and slow machine: slow, and right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from holdfast.schemas.topics import TopicSpec
from tests.support.cluster import LocalCluster, running
from tests.support.commands import DEADLINE_S

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SLOW = """
import os, sys, time

class Slow:
    '''Imports get a tenth of a core: for each second of processor time nine pass by.'''

    def __init__(self):
        self.spent_s, self.depth = time.thread_time(), 0

    def find_spec(self, name, path=None, target=None):
        spent_s = time.thread_time()
        time.sleep(min(max(spent_s - self.spent_s, 0.0), 0.2) * 9)
        self.spent_s = time.thread_time()
        return None

sys.meta_path.insert(0, Slow())
"""
JOB = """
name: NAME
sources: {s: {topic: NAME-in, fields: {id: int, shop: string}, parallelism: 2}}
operators: {o: OPERATOR}
queries: {all: {input: o, sink: {topic: NAME-out, partitions: 1}}}
fault_tolerance: {default: {scheme: hybrid}}
"""
COUNTED = '{aggregate: {n: "count()"}, key: [shop], input: s}'
RECORDS = 2_000


def _submit(site: LocalCluster, folder: Path, name: str, operator: str) -> None:
    (folder / f"{name}.yaml").write_text(JOB.replace("NAME", name).replace("OPERATOR", operator))
    site.log.create([TopicSpec(f"{name}-in", 2)])
    site.call("submit", str(folder / f"{name}.yaml"), "--create-topics", "--timeout", f"{2 * DEADLINE_S:g}")


def _forget(folder: Path) -> None:
    """Its files leave the page cache, as far as nobody holds them: no right is needed for that."""
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix in (".py", ".pyc", ".so"):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a program forget what it has read")
def test_a_job_on_a_cold_machine_with_a_tenth_of_a_core_for_imports_is_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No module is compiled and the environment forbids to keep any; the folder that it runs from stays empty."""
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text(SLOW)
    (empty := tmp_path / "empty").mkdir()
    monkeypatch.chdir(empty)
    environment = {
        "PYTHONPATH": str(tmp_path / "slow"),
        "PYTHONPYCACHEPREFIX": str(tmp_path / "modules"),
        "HOLDFAST_CACHE": os.environ.get("HOLDFAST_CACHE") or str(Path("~/.cache/holdfast").expanduser()),
    }
    _forget(Path(sysconfig.get_paths()["purelib"]))
    with running(LocalCluster(tmp_path / "cluster", environment, 4 * DEADLINE_S), workers=2) as site:
        assert list((tmp_path / "modules").rglob("*.pyc")), "processes compiled their modules"
        _submit(site, tmp_path, "cold", COUNTED)
        rows = [{"id": number, "shop": f"shop-{number % 7}"} for number in range(RECORDS)]
        site.feed("cold-in", rows)
        site.call("cancel", "cold", "--drain")
        newest = {row["shop"]: row["n"] for row in site.rows("cold-out")}
        assert newest == Counter(row["shop"] for row in rows)
        assert not site.events("copy-faulted", "copy-failed", "job-failed")
    assert os.listdir(empty) == [], "commands and processes leave nothing in the user's folder"


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a program forget what it has read")
def test_the_demo_runs_on_such_a_machine_slowly_and_rightly(tmp_path: Path) -> None:
    """Its worker is killed three times each way, so that processes load while others work."""
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text(SLOW)
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "slow"),
        "PYTHONPYCACHEPREFIX": str(tmp_path / "modules"),
    }
    _forget(Path(sysconfig.get_paths()["purelib"]))
    line = [sys.executable, "-m", "bench.demo"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["lost"], found["duplicated"], found["wrong"]) == (0, 0, 0)
    assert (len(found["takeovers_ms"]), len(found["restarts_ms"])) == (3, 3)
