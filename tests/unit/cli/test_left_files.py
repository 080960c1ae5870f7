"""Commands that need no Kafka leave nothing in the user's folder; the others: test_waiting_commands.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.services.cli.commands import app

JOB = """
name: counted
sources: {given: {topic: given, fields: {k: string}}}
operators: {sums: {aggregate: {n: "count()"}, key: [k], input: given}}
queries: {all: {input: sums, sink: {topic: all}}}
"""


@pytest.mark.parametrize(
    "words",
    [
        ["try", "job.yaml", "--input", "given=given.ndjson"],
        ["check", "job.yaml"],
        ["plan", "job.yaml", "--budget", "0.5"],
        ["convert", "job.yaml"],
        ["functions"],
        ["settings"],
        ["schema"],
        ["completion", "bash"],
        ["down"],
        ["list"],
        ["kill", "worker-1"],
    ],
    ids=lambda words: words[0],
)
def test_the_folder_is_as_before(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "given.ndjson").write_text('{"k": "a"}\n')
    before = set(tmp_path.rglob("*"))
    found = CliRunner().invoke(app, words)
    assert found.exception is None or isinstance(found.exception, SystemExit), found.output
    assert set(tmp_path.rglob("*")) == before
