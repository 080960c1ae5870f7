"""A data directory has one supervisor, and says which."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.services.node.machine.cluster_files import AlreadyRunning, Cluster, ClusterFiles, WorkerProcess
from holdfast.services.node.machine.metrics_ports import Target
from holdfast.services.node.machine.processes import open_log
from holdfast.services.node.machine.restarts import DELAYS_S, STEADY_S, Restarts
from tests.support.processes import parent_of_one

HOLDER = """
import signal, sys
from pathlib import Path
from holdfast.services.node.machine.cluster_files import ClusterFiles
import os

files = ClusterFiles(Path(sys.argv[1]))
files.take()
print(os.getpid(), flush=True)
signal.pause()
"""


def test_nobody_runs_in_a_directory_that_is_not_there(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path / "none")
    assert (files.supervisor(), files.running(), files.cluster(), files.workers()) == (None, None, None, [])
    files.purge()


def test_files_that_an_earlier_version_left_open_to_others_are_closed(tmp_path: Path) -> None:
    """Also in a directory that somebody else made, which stays as it is."""
    for name in ("logs", "state", "kafka"):
        (tmp_path / name).mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    files = ClusterFiles(tmp_path)
    files.take()
    try:
        with open_log(files.logs / "worker-1.log") as log:
            log.write(b"a record of a user\n")
        files.write_metrics([Target(("127.0.0.1:9100",), {"process": "worker-1"})])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, *tmp_path.rglob("*"))}
        assert {modes[name] for name in ("logs", "state", "kafka")} == {0o700}
        assert modes["worker-1.log"] == modes["supervisor.lock"] == 0o600
        assert modes["metrics.json"] == 0o644, "Prometheus may be another user"
        assert modes[tmp_path.name] == 0o755
    finally:
        files.release()


PRIVATE = """
import sys
from pathlib import Path
from holdfast.services.log.seal.private import keep_private
keep_private()
Path(sys.argv[1]).mkdir()
(Path(sys.argv[1]) / "file").write_text("")
"""


def test_files_of_a_clusters_processes_are_open_to_their_owner_alone(tmp_path: Path) -> None:
    made = tmp_path / "made"
    subprocess.run([sys.executable, "-c", PRIVATE, str(made)], check=True)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (made, made / "file")] == [0o700, 0o600]


def test_a_second_holder_is_told_who_holds_it(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path)
    with parent_of_one(HOLDER, str(tmp_path)) as (_, holder):
        assert files.supervisor() == holder.pid
        assert files.running() is None, "it has said nothing yet"
        files.write_cluster(Cluster("ready", holder.pid, "localhost:1", "holdfast", str(tmp_path)))
        assert files.running() == files.cluster()
        with pytest.raises(AlreadyRunning, match=f"started in {tmp_path}: `holdfast down --data-dir {tmp_path}` stops"):
            files.take()
        holder.kill()
        assert holder.ended_within(10)
    assert files.supervisor() is None
    assert files.running() is None, "what it left is stale"
    files.take()
    files.release()


def test_a_stale_file_of_another_process_does_not_count(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path)
    files.take()
    files.write_cluster(Cluster("ready", os.getpid() + 1, "localhost:1", "holdfast", str(tmp_path)))
    assert files.running() is None
    files.release()


def test_half_a_file_is_none(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path)
    files.write_workers([WorkerProcess("worker-1", "a", None, "zone-1")])
    assert [worker.worker for worker in files.workers()] == ["worker-1"]
    (tmp_path / "workers.json").write_text('[{"worker": ')
    assert files.workers() == []


def test_a_new_directory_is_its_owners_alone_and_one_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o755)
    for name, mode in (("new", 0o700), ("there", 0o755)):
        files = ClusterFiles(tmp_path / name)
        files.take()
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
        files.release()


def test_purge_removes_what_is_ours_only(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("kafka/data", "logs", "spark/job.1", "state"):
        (home / name).mkdir(parents=True)
    files = ClusterFiles(home)
    files.take()
    (home / "notes.txt").write_text("mine")
    files.purge()
    assert [path.name for path in home.iterdir()] == ["notes.txt"]
    (home / "notes.txt").unlink()
    files.purge()
    assert not home.exists()


def test_a_process_that_keeps_ending_is_started_ever_later_until_it_runs_steadily() -> None:
    restarts = Restarts()
    assert restarts.delay_s(STEADY_S) == 0
    assert [restarts.delay_s(0.1) for _ in range(7)] == [*DELAYS_S, DELAYS_S[-1], DELAYS_S[-1]]
    assert restarts.delay_s(STEADY_S) == 0
    assert restarts.delay_s(1) == DELAYS_S[0]
    assert restarts.count == 10
