"""The doctor finds what is missing and says what to do about it."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from holdfast.services.node import doctor
from holdfast.services.node.doctor import Finding, Verdict, examine
from holdfast.services.node.settings import Settings


def finding(name: str, settings: Settings) -> Finding:
    return next(found for found in examine(settings) if found.name == name)


def test_this_machine_is_fit() -> None:
    """The checkout was set up, so nothing fails; and what is not well comes with advice."""
    findings = examine(Settings())
    assert [found for found in findings if found.verdict is Verdict.FAIL] == []
    assert all(found.advice for found in findings if found.verdict is not Verdict.OK)


def test_java_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    found = finding("Java", Settings())
    assert found.verdict is Verdict.FAIL
    assert "openjdk-17" in found.advice


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "is Java 8" in finding("Java", Settings()).advice


def test_java_and_jars_do_not_matter_with_a_kafka_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "KAFKA_TIMEOUT_S", 0.2)
    names = {found.name: found for found in examine(Settings(kafka="127.0.0.1:1"))}
    assert "Java" not in names
    assert names["Kafka"].verdict is Verdict.FAIL
    assert "HOLDFAST_KAFKA" in names["Kafka"].advice


def test_a_server_that_is_no_kafka_is_named() -> None:
    def answer() -> None:
        with server.accept()[0] as connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.0 400 Bad request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, daemon=True).start()
        found = finding("Kafka", Settings(kafka=f"127.0.0.1:{server.getsockname()[1]}"))
    assert found.verdict is Verdict.FAIL
    assert "is an HTTP server" in found.found
    assert "HOLDFAST_KAFKA" in found.advice


def test_absent_jars_are_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    assert finding("broker's jars", Settings()).advice.startswith("`holdfast up`")


def test_a_port_in_use_is_noticed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = finding("Kafka's ports", Settings(kafka_port=port))
    assert found.verdict is Verdict.WARN
    assert str(port) in found.found


def test_a_full_disk_is_noticed_where_the_home_will_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(home=tmp_path / "not" / "there" / "yet")
    assert finding("disk space", settings).found.endswith("GiB free")
    monkeypatch.setattr(doctor, "GIB", 1024**6)  # as if the disk were small
    assert finding("disk space", settings).verdict is Verdict.FAIL
