"""Jars are taken only if they are exactly the recorded ones."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from holdfast.services.cli.cluster import _fetch_kafka
from holdfast.services.node.machine import artifacts
from holdfast.services.node.machine.artifacts import (
    ArtifactSet,
    ArtifactsMissing,
    Coordinate,
    ensure,
    faults,
    read_set,
    require,
)

CONTENT = {"a-1.jar": b"first", "b-2.jar": b"second"}


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactSet:
    """A set of two jars, recorded in an `infra` of its own; the cache is empty."""
    folder = tmp_path / "infra" / "some"
    folder.mkdir(parents=True)
    (folder / "artifacts.txt").write_text("# a comment\norg.some some_2.13 4.3.1\norg.other other 1.0\n")
    sums = (f"{hashlib.sha256(content).hexdigest()}  {jar}\n" for jar, content in CONTENT.items())
    (folder / "artifacts.sha256").write_text("".join(sums))
    monkeypatch.setattr(artifacts, "INFRA", tmp_path / "infra")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return read_set("some")


def put(directory: Path, content: dict[str, bytes]) -> Path:
    directory.mkdir(parents=True)
    for jar, data in content.items():
        (directory / jar).write_bytes(data)
    return directory


def test_a_set_is_read_from_its_two_files(wanted: ArtifactSet, tmp_path: Path) -> None:
    assert wanted.coordinates == (Coordinate("org.some", "some_2.13", "4.3.1"), Coordinate("org.other", "other", "1.0"))
    assert wanted.directory == tmp_path / "cache" / "some-4.3.1"
    assert wanted.class_path == f"{wanted.directory}/a-1.jar:{wanted.directory}/b-2.jar"


def test_intact_jars_are_used_as_they_are(wanted: ArtifactSet) -> None:
    put(wanted.directory, CONTENT)
    assert faults(wanted, wanted.directory) == []
    assert ensure("some") == require("some") == wanted


def test_absent_altered_and_unknown_jars_are_told(wanted: ArtifactSet) -> None:
    put(wanted.directory, {"a-1.jar": b"altered", "c-3.jar": b"unknown"})
    assert len(faults(wanted, wanted.directory)) == 3


def test_absent_jars_name_the_command_that_brings_them(wanted: ArtifactSet) -> None:
    with pytest.raises(ArtifactsMissing, match=r"holdfast\.services\.node\.machine\.artifacts some"):
        require("some")


def test_the_jars_of_kafka_come_before_the_cluster_starts(wanted: ArtifactSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where neither a checkout nor pyspark is."""
    fetched: list[str] = []
    monkeypatch.setattr(artifacts, "read_set", lambda _: wanted)
    monkeypatch.setattr(artifacts, "ensure", fetched.append)
    _fetch_kafka(quiet=True)
    assert fetched == ["kafka"]
    put(wanted.directory, CONTENT)
    _fetch_kafka(quiet=True)
    assert fetched == ["kafka"]
    assert artifacts.IVY.exists()


def test_a_damaged_set_is_replaced(wanted: ArtifactSet, monkeypatch: pytest.MonkeyPatch) -> None:
    put(wanted.directory, {"a-1.jar": b"altered"})
    monkeypatch.setattr(artifacts, "_resolve", lambda _, staging: put(staging / "jars", CONTENT))
    ensure("some")
    assert faults(wanted, wanted.directory) == []
    assert list(wanted.directory.parent.iterdir()) == [wanted.directory]  # nothing is left beside it


def test_jars_other_than_recorded_are_refused(wanted: ArtifactSet, monkeypatch: pytest.MonkeyPatch) -> None:
    forged = CONTENT | {"b-2.jar": b"forged"}
    monkeypatch.setattr(artifacts, "_resolve", lambda _, staging: put(staging / "jars", forged))
    with pytest.raises(ArtifactsMissing, match=r"b-2\.jar"):
        ensure("some")
    assert not wanted.directory.exists()
