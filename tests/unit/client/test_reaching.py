"""Whether a Kafka is there is known at once, and a command says what to do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.services.client import reaching
from holdfast.services.client.reaching import reach
from holdfast.services.kernel.errors import CommandFailed

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


def test_a_single_server_that_listens_is_enough(free: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach(f"127.0.0.1:{free}, PLAINTEXT://localhost:{port}", "")


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
