"""What `up` and `down` promise: clusters live side by side, come back after a crash, and leave no process behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import HOLDFAST, run, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


class Local:
    """A cluster directory and the commands on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def call(self, *words: str, status: int = 0) -> str:
        return "".join(run(self.folder, *words, status=status))

    def up(self) -> dict[str, Any]:
        out = self.call("up", "--detach", "--workers", "1", "--json")
        return dict(json.loads([line for line in out.splitlines() if line.startswith("{")][-1]))

    def live(self) -> int:
        """Workers that were heard of late."""
        return [one["state"] for one in json.loads(self.call("workers", "--json"))].count("live")

    def processes(self) -> set[int]:
        """Every process that names this directory in its command line or its environment."""
        return {
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and int(entry.name) != os.getpid() and self._names_us(entry)
        }

    def _names_us(self, process: Path) -> bool:
        try:
            return str(self.folder).encode() in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            return False


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[Local, Local]]:
    both = Local(tmp_path / "one"), Local(tmp_path / "two")
    try:
        yield both
    finally:
        for one in both:
            subprocess.run([HOLDFAST, "down", "--data-dir", str(one.folder)], check=False, capture_output=True)


def test_two_clusters_live_side_by_side_and_leave_no_process(clusters: tuple[Local, Local]) -> None:
    one, two = clusters
    addresses = {one.up()["bootstrap_servers"], two.up()["bootstrap_servers"]}
    assert len(addresses) == 2
    assert "already, as process" in one.call("up", "--detach", status=1)
    assert one.processes()
    one.call("down")
    until(lambda: not one.processes(), "nothing is left of the first")
    until(lambda: two.live() == 1, "the worker of the second is heard")
    two.call("down")
    until(lambda: not two.processes(), "nothing is left of the second")


def test_after_a_crash_of_the_supervisor_nothing_is_left_and_up_recovers(clusters: tuple[Local, Local]) -> None:
    one, _ = clusters
    one.up()
    supervisor = json.loads((one.folder / "cluster.json").read_text())["pid"]
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not one.processes(), "its children go with it")
    one.up()
    until(lambda: one.live() == 1, "its worker is heard")
