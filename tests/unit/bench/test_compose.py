"""The bench of containers, as far as it goes without an engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.compose.command import SOAK_EVERY_S, main
from bench.compose.loaded import OF_WORKERS, WHOM, Silence, worst, worst_fed
from bench.compose.project import BROKERS, COMPOSE, Project
from bench.compose.strikes import STRIKES


@pytest.mark.parametrize("file", ["compose.yaml", "compose.small.yaml", "compose.secure.yaml"])
def test_a_project_has_ports_of_its_own_for_every_broker_of_a_file(file: str, tmp_path: Path) -> None:
    project = Project(tmp_path, file)
    named = set(re.findall(r"HOLDFAST_KAFKA_PORT(?:_[0-9])?", (COMPOSE / file).read_text()))
    ports = [int(project.environment[name]) for name in named]
    assert len(set(ports)) == len(named) == (1 if "small" in file else BROKERS)
    assert not {29_092, 29_093, 29_094} & set(ports), "those of somebody's own cluster"
    assert project.secret.stat().st_mode & 0o077 == 0


def test_every_strike_of_a_soak_is_known_and_a_full_disk_is_none_of_them() -> None:
    drawn = {name for names in (*WHOM.values(), OF_WORKERS) for name in names}
    assert drawn == STRIKES.keys() - {"full-disk"}, "the volumes of compose.yaml have no bound of their own"
    assert SOAK_EVERY_S > 0


def test_the_worst_silence_is_that_of_results_beside_that_of_what_was_fed() -> None:
    silences = [Silence("worker-1 restarts", 120.0, 6.0), Silence("worker-2 restarts", 80.0, 11.0)]
    assert (worst(silences), worst_fed(silences)) == (120.0, 11.0)
    assert str(silences[0]) == "worker-1 restarts: longest silence of results 120 ms, of what was fed 6 ms"
    assert (worst([]), worst_fed([])) == (0.0, 0.0)


def test_without_an_engine_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("bench.compose.command.no_engine", lambda: "there is no docker command")
    assert main([]) == 1
    assert "error: there is no docker command" in capsys.readouterr().err
