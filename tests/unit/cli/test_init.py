"""`holdfast init` writes a job file that runs, writes over nothing unasked, and `try --watch` repeats the run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.services.cli import job_names, trial_again
from holdfast.services.cli.__main__ import COMPLETE
from holdfast.services.cli.commands import COMMANDS, app
from holdfast.services.cli.completion import VARIABLE
from tests.support.deadlines import HANG_S

ROWS = "user,at,amount\n" + "".join(f"{'ab'[n % 2]},2026-01-01T0{n % 5}:00:00Z,{n}\n" for n in range(20))


def init(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["init", *words])
    return found.exit_code, found.output


def test_from_a_file_to_a_job_that_check_and_try_take(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    job = str(tmp_path / "sales.yaml")
    code, said = init(job, "--from", str(tmp_path / "rows.csv"))
    assert code == 0, said
    assert "job sales, 3 fields of 20 records" in said
    assert "event time: at" in said
    check = CliRunner().invoke(app, ["check", job, "--data-dir", str(tmp_path)])
    assert check.exit_code == 0, check.output
    tried = CliRunner().invoke(app, ["try", job])
    assert tried.exit_code == 0, tried.output
    rows = [json.loads(line) for line in tried.stdout.splitlines()]
    assert sum(row["records"] for row in rows) == 20
    into_a_file = CliRunner().invoke(app, ["try", job, "--out", job])
    assert (into_a_file.exit_code, "is a file" in into_a_file.output) == (2, True), into_a_file.output
    below_a_file = CliRunner().invoke(app, ["try", job, "--out", f"{job}/below"])
    assert (
        below_a_file.exit_code,
        f"{job}/below: {job} is a file, no folder" in below_a_file.output.replace("\n", ""),
    ) == (
        1,
        True,
    )


def test_a_file_that_is_there_stays_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    job = tmp_path / "sales.yaml"
    job.write_text("mine")
    code, said = init(str(job), "--from", str(tmp_path / "rows.csv"))
    assert (code, "--force writes over it" in said, job.read_text()) == (2, True, "mine")
    assert init(str(job), "--from", str(tmp_path / "rows.csv"), "--force")[0] == 0
    assert job.read_text() != "mine"


@pytest.mark.parametrize(
    ("content", "what"), [("", "no record"), ("1\n2\n3\n4\n", "no JSON objects"), ("not json\n" * 5, "no JSON objects")]
)
def test_a_sample_that_gives_no_job_writes_no_file(tmp_path: Path, content: str, what: str) -> None:
    (tmp_path / "rows.ndjson").write_text(content)
    code, said = init(str(tmp_path / "job.yaml"), "--from", str(tmp_path / "rows.ndjson"))
    assert (code != 0, what in said, (tmp_path / "job.yaml").exists()) == (True, True, False), said


@pytest.mark.parametrize(
    ("job", "sample", "what"),
    [
        ("job.yaml", "absent.csv", "there is no file"),
        ("job.yaml", "folder", "does not say what the file holds"),
        ("absent/job.yaml", "rows.csv", "(give a path that can be written)"),
        ("-", "rows.csv", "'-' is no name of a job file"),
    ],
)
def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path, job: str, sample: str, what: str) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "folder").mkdir()
    code, said = init(job if job == "-" else str(tmp_path / job), "--from", str(tmp_path / sample))
    assert (code, said.count("error: ") == 1, what in said) == (2, True, True), said
    assert not (tmp_path / "job.yaml").exists()


def test_without_a_sample_and_a_terminal_the_command_says_what_it_needs(tmp_path: Path) -> None:
    code, said = init(str(tmp_path / "job.yaml"))
    assert (code, "--from FILE, or --topic TOPIC" in said) == (2, True)


# -- try --watch ------------------------------------------------------------------------------------------------------


def test_a_run_follows_each_change_and_waits_for_a_file_that_is_being_replaced(tmp_path: Path) -> None:
    file, runs, looks = tmp_path / "job.yaml", [], 0
    file.write_text("one")

    def rest(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            file.unlink()
        elif looks == 5:
            file.write_text("the second")
        elif looks > 8:
            raise KeyboardInterrupt

    trial_again.watch(lambda: [file], lambda: runs.append(file.read_text()), rest)
    assert runs == ["one", "the second"]


def test_a_touch_repeats_the_run_also_while_an_input_was_never_there(tmp_path: Path) -> None:
    job, absent, runs, looks = tmp_path / "job.yaml", tmp_path / "absent.csv", [], 0
    job.write_text("one")

    def rest(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            os.utime(job, (1, 1))
        elif looks > 4:
            raise KeyboardInterrupt

    trial_again.watch(lambda: [job, absent], lambda: runs.append(looks), rest)
    assert runs == [0, 2]


def test_files_that_the_job_file_names_and_modules_of_the_folder_are_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, given = tmp_path / "job.yaml", tmp_path / "given.csv"
    job.write_text("sources: {rows: {path: rows.csv}, more: {topic: more}}")
    (tmp_path / "own.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert trial_again.files_of(job, [given]) == [job, given, tmp_path / "rows.csv", Path("own.py")]
    for wrong in ("", "sources: [1]", "sources: {rows: {path: 3}}", "a: {"):
        job.write_text(wrong)
        assert trial_again.files_of(job, []) == [job, Path("own.py")]


def test_a_change_during_the_run_is_not_missed(tmp_path: Path) -> None:
    file, runs = tmp_path / "job.yaml", []
    file.write_text("one")

    def run() -> None:
        runs.append(file.read_text())
        if len(runs) == 1:
            file.write_text("changed meanwhile")

    def rest(_: float) -> None:
        raise KeyboardInterrupt

    trial_again.watch(lambda: [file], run, rest)
    assert runs == ["one", "changed meanwhile"]


@pytest.mark.slow
def test_try_watch_runs_again_and_ends_plainly_on_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    job = tmp_path / "sales.yaml"
    assert init(str(job), "--from", str(tmp_path / "rows.csv"))[0] == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast.services.cli", "try", str(job), "--watch"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    lines, said = process.stderr, list[str]()
    reading = threading.Thread(target=lambda: said.extend(iter(lines.readline, "")), daemon=True)
    reading.start()
    try:
        _until(lambda: sum("watching" in line for line in said) == 1)
        job.write_text(job.read_text().replace("window: {size_s: 3600}", "window: {size_s: 86400}"))
        _until(lambda: sum("watching" in line for line in said) == 2)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout is not None
        out = process.stdout.read()
        assert process.wait(HANG_S) == 130
        reading.join(HANG_S)
    finally:
        process.kill()
    assert len(out.splitlines()) == 10 + 2, "two users in five hours, then in one day"
    assert said[-1] == "no longer watched\n"
    assert not [line for line in said if "Traceback" in line]


def _until(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < until_s
        threading.Event().wait(0.05)


# -- completion -------------------------------------------------------------------------------------------------------


def complete(line: str, shell: str = "bash") -> list[str]:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)} if shell == "bash" else {}
    more = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    found = subprocess.run(
        [sys.executable, "-m", "holdfast.services.cli"], check=False, capture_output=True, text=True,
        env={**os.environ, **words, **more, VARIABLE: f"complete_{shell}"},
    )  # fmt: skip
    assert not found.stderr
    return found.stdout.splitlines()


@pytest.mark.slow
def test_commands_and_options_are_completed_in_each_shell() -> None:
    assert COMPLETE == VARIABLE
    assert complete("holdfast st") == ["stall", "status", "state"]
    assert complete("holdfast try --wa") == ["--watch"]
    assert [line.split("\t")[0] for line in complete("holdfast wor", "fish")] == ["workers"]
    assert '"workers"' in "".join(complete("holdfast wor", "zsh"))
    assert set(complete("holdfast ")) == {one.name for one in COMMANDS}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed_and_parses(shell: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["completion", shell])
    assert (found.exit_code, VARIABLE in found.stdout) == (0, True)
    if (program := shutil.which(shell)) is not None:
        (tmp_path / "script").write_text(found.stdout)
        assert subprocess.run([program, "-n", str(tmp_path / "script")], check=False).returncode == 0


def test_names_of_jobs_are_completed_and_without_a_cluster_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(job_names, "_read", lambda found: found.extend(["flights", "flows", "visits", "flights"]))
    assert job_names.job_names("fl") == ["flights", "flows"]
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_KAFKA", raising=False)
    assert job_names.job_names("") == []


def test_a_cluster_that_does_not_answer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(job_names, "_read", lambda _: never.wait())
    monkeypatch.setattr(job_names, "PATIENCE_S", 0.01)
    assert job_names.job_names("") == []
    never.set()
