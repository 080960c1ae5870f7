"""A command says at once what is at the address of Kafka, and what to do."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.services.cli.commands import app
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.log.kafka import listeners, requests
from holdfast.services.log.kafka import reach as reaching
from holdfast.services.log.kafka.reach import reach
from tests.support.deadlines import HANG_S

PATIENCE_S = 600
"""Longer than a starved command takes that does not wait."""
"""A busy machine may hold up any one command. One that waits for Kafka is never quick: one quick refusal is proof."""
HOLDFAST = Path(sys.executable).parent / "holdfast"


def refusal(address: str) -> str:
    with pytest.raises(CommandFailed) as failed:
        reach(address, "do this")
    assert failed.value.hint == "do this"
    return failed.value.message


@pytest.fixture
def free() -> int:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def serving(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """The address of a server that gives each connection to `answer`, and closes it then."""

    def serve() -> None:
        with suppress(OSError):
            while not over.is_set():
                with server.accept()[0] as connection:
                    answer(connection)

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join(HANG_S)


def kafka(connection: socket.socket) -> None:
    """Answers a request for versions as a broker does: length, number of the request, no error, no versions."""
    number = connection.recv(4096)[8:12]
    connection.sendall(struct.pack(">i", 10) + number + struct.pack(">hi", 0, 0))


def silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


@contextmanager
def http() -> Iterator[str]:
    """The address of `python -m http.server`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "QUIET_S", 0.1)
    monkeypatch.setattr(listeners, "ANSWER_S", 0.2)
    monkeypatch.setattr(requests, "ANSWER_S", 0.2)


def test_a_single_kafka_that_answers_is_enough(free: int) -> None:
    with serving(kafka) as address:
        assert reach(f"127.0.0.1:{free}, PLAINTEXT://{address}", "") == ""
        with http() as other:
            assert reach(f"{other},{address}", "") == ""


def test_a_server_that_is_no_kafka_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "QUIET_S", 0.1)
    with http() as address:
        said = f"Kafka at {address} cannot be reached: {address} is an HTTP server, no Kafka"
        assert refusal(address) == said
    with serving(lambda one: one.sendall(b"SSH-2.0-Open\x1bSSH\r\n")) as address:
        assert "no Kafka: its answer begins with 'SSH-2.0-Open\\x1bSSH'" in refusal(address)
    with serving(lambda one: one.sendall(b"\x15\x03\x01\x00\x02\x02\x0a")) as address:
        assert "wants TLS: if it is Kafka, set HOLDFAST_KAFKA_CLIENT_SECURITY_PROTOCOL to SSL" in refusal(address)
    with serving(lambda one: one.sendall(one.recv(4096))) as address:
        assert "no Kafka" in refusal(address), "an echo is no answer"


def test_a_server_without_an_answer_may_be_kafka_and_is_named(quick: None) -> None:
    with serving(silent) as address:
        assert reach(address, "") == f"{address} is a server that has not answered for 0.2 s: is it Kafka?"
    with serving(lambda one: one.recv(4096)) as address:
        assert "ends the connection without an answer: Kafka does so if it wants TLS" in reach(address, "")


def test_a_server_to_which_clients_speak_tls_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KAFKA_CLIENT_SECURITY_PROTOCOL", "SASL_SSL")
    with serving(lambda one: one.close()) as address:
        assert reach(address, "") == ""


def test_a_name_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(reaching, "CONNECT_S", 0.1)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(HANG_S) and [])
    assert "no name server says within 0.1 s where the host 'kafka' is" in refusal("kafka:9092")
    answered.set()

    def away(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", away)
    assert "where the host 'kafka' is: temporary failure in name resolution" in refusal("kafka:9092")


def test_a_command_names_the_server_at_once_and_at_its_limit(
    quick: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_COMMAND_PATIENCE_S", "1")
    with serving(silent) as address:
        done = CliRunner().invoke(app, ["list", "--kafka", address, "--data-dir", str(tmp_path)])
    first, *_, last = done.stderr.splitlines()
    assert first == f"{address} is a server that has not answered for 0.2 s: is it Kafka?"
    assert last.startswith(f"error: Kafka at {address} cannot be reached: {first} (check the address; `holdfast up`")
    assert done.exit_code == 1


def test_the_reason_is_said(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(f"127.0.0.1:{free}") == f"Kafka at 127.0.0.1:{free} cannot be reached: connection refused"
    assert "there is no host 'no.such.invalid'" in refusal("no.such.invalid:9092")
    assert "is no address: write HOST:PORT" in refusal("127.0.0.1:")
    assert "is no address" in refusal("127.0.0.1:port")
    assert "is no address: write HOST:PORT" in refusal("http://127.0.0.1:9092")
    assert "99999 is no port: a port is 1 to 65535" in refusal("127.0.0.1:99999")
    monkeypatch.setattr(reaching, "CONNECT_S", 0.2)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:  # its queue is full: further connections are not answered
            one.setblocking(False)
            one.connect_ex(address)
        assert "no answer from 127.0.0.1" in refusal(f"127.0.0.1:{address[1]}")
        for one in waiting:
            one.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["send", "t", "rows.ndjson"],
        ["results", "a", "b"],
        ["dead-letters", "a", "--replay"],
        ["up", "--detach"],
    ],
)
def test_every_command_says_it_and_what_to_do(tmp_path: Path, free: int, words: list[str]) -> None:
    (tmp_path / "rows.ndjson").write_text("{}\n")
    command = [str(HOLDFAST), *words, "--kafka", f"127.0.0.1:{free}", "--data-dir", str(tmp_path / "home")]

    environment = {**os.environ, "HOLDFAST_COMMAND_PATIENCE_S": str(PATIENCE_S)}
    started = time.monotonic()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert time.monotonic() - started < PATIENCE_S / 2, "nothing is waited for"
    assert done.returncode == 1
    assert "cannot be reached: connection refused" in done.stderr
    assert "`holdfast up`" in done.stderr
    assert not (tmp_path / "home").exists()
