"""`holdfast down --purge` says what it leaves on a Kafka that is not ours, and how to remove that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.services.cli.commands import app


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CLUSTER", "shop")
    monkeypatch.delenv("HOLDFAST_KAFKA", raising=False)


def test_topics_on_a_kafka_of_ones_own_stay_and_the_command_that_deletes_them_is_named(tmp_path: Path) -> None:
    words = ["down", "--purge", "--data-dir", str(tmp_path), "--kafka", "k1:9092"]
    said = " ".join(CliRunner().invoke(app, words).output.split())
    assert "the topics of cluster 'shop' and of its jobs stay on Kafka at k1:9092" in said
    assert "`holdfast topics --clean --kafka k1:9092`" in said
    assert json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)["topics_stay_at"] == "k1:9092"


def test_nothing_of_an_embedded_kafka_stays(tmp_path: Path) -> None:
    words = ["down", "--purge", "--data-dir", str(tmp_path)]
    assert "stay on Kafka" not in CliRunner().invoke(app, words).output
    assert json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)["topics_stay_at"] == ""
    assert CliRunner().invoke(app, ["down", "--data-dir", str(tmp_path), "--kafka", "k1:9092"]).exit_code == 0
