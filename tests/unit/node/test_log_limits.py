"""How large logs of processes become, and how many former ones are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.services.node.machine.log_limits import MIB, LogLimits
from holdfast.services.node.machine.processes import open_log
from holdfast.services.node.settings import Settings


def say(log: Path, text: str, limits: LogLimits) -> None:
    """A process starts and says so."""
    with open_log(log, limits) as output:
        output.write(text.encode())


def texts(log: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(log.parent.iterdir())}


@pytest.mark.parametrize(
    ("former", "kept"),
    [
        (0, {"x.log": "run 4"}),
        (1, {"x.log": "run 4", "x.log.1": "run 3"}),
        (3, {"x.log": "run 4", "x.log.1": "run 3", "x.log.2": "run 2", "x.log.3": "run 1"}),
    ],
)
def test_the_former_logs_that_the_limit_allows_are_kept(tmp_path: Path, former: int, kept: dict[str, str]) -> None:
    log = tmp_path / "x.log"
    for run in range(5):
        say(log, f"run {run}", LogLimits(4, former))
    assert texts(log) == kept


def test_a_process_that_runs_for_long_keeps_the_same_number_of_logs(tmp_path: Path) -> None:
    log, limits = tmp_path / "x.log", LogLimits(10, 2)
    with open_log(log, limits) as output:
        for part in range(4):
            output.write(f"what part {part} says".encode())
            output.flush()
            limits.bound(log)
        output.write(b"short")
    limits.bound(log)
    assert texts(log) == {"x.log": "short", "x.log.1": "what part 3 says", "x.log.2": "what part 2 says"}


def test_a_lower_limit_deletes_the_logs_above_it(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    for run in range(5):
        say(log, f"run {run}", LogLimits(4, 3))
    (tmp_path / "x.log.gz").write_text("of a person")
    say(log, "run 5", LogLimits(4, 1))
    assert texts(log) == {"x.log": "run 5", "x.log.1": "run 4", "x.log.gz": "of a person"}


def test_a_log_that_is_not_full_is_continued(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    for _ in range(2):
        say(log, "said ", LogLimits(100))
    assert texts(log) == {"x.log": "said said "}


def test_the_limits_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().log_limits == LogLimits()
    monkeypatch.setenv("HOLDFAST_LOG_FILE_MB", "2")
    monkeypatch.setenv("HOLDFAST_LOG_FILES", "5")
    assert Settings().log_limits == LogLimits(2 * MIB, 5)
