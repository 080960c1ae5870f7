"""A broker is away until repeated complaints are counted: a service logs a few lines; it lives, and is not ready."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.services.node.kafka.broker import EmbeddedKafka
from holdfast.services.node.machine.ports import choose_pair
from tests.support.commands import DEADLINE_S, until
from tests.support.kafka import running_kafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MOST_LINES = 40
"""Of a service in an outage: a line for each kind of message, and their numbers. Without it: hundreds a second."""
COMPLAIN = ("controller", "recovery")
"""Services whose client complains. That of a worker complains to nobody."""
SERVICES = (*COMPLAIN, "worker")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    with running_kafka(tmp_path) as broker:
        yield broker


@contextmanager
def running(service: str, broker: EmbeddedKafka, log: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    named = {"HOLDFAST_KAFKA": broker.bootstrap_servers, "HOLDFAST_CLUSTER": "logs", "HOLDFAST_LOG_FORMAT": "json"}
    named |= {"HOLDFAST_METRICS_PORT": str(port), "HOLDFAST_STATE_DIR": str(log.parent / "state")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", f"holdfast.services.{service}"],
            env={**os.environ, **named},
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def asked(port: int, path: str) -> tuple[int, dict[str, Any]]:
    """The status and what the process says of itself; 0: it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())
    except OSError:
        return 0, {}


def said(log: Path, since: int) -> list[dict[str, Any]]:
    """Lines behind the first so many, but for one that is being written."""
    return [json.loads(line) for line in log.read_text().splitlines(keepends=True)[since:] if line.endswith("\n")]


def left_out(lines: list[dict[str, Any]]) -> int:
    """Repeats that were counted, and not written."""
    return sum(line.get("repeated", 0) for line in lines)


def test_an_outage_is_some_lines_of_each_service(broker: EmbeddedKafka, tmp_path: Path) -> None:
    logs = {service: tmp_path / f"{service}.log" for service in SERVICES}
    with ExitStack() as stack:
        ports = {service: choose_pair() for service in SERVICES}
        assert len(set(ports.values())) == len(SERVICES)
        processes = [
            stack.enter_context(running(service, broker, log, ports[service])) for service, log in logs.items()
        ]
        until(lambda: all(asked(port, "/readyz")[0] == 200 for port in ports.values()), "all are ready")
        before = {service: len(log.read_text().splitlines()) for service, log in logs.items()}
        broker.kill()
        until(lambda: all(left_out(said(logs[one], before[one])) for one in COMPLAIN), "repeats are counted")
        for service, port in ports.items():
            assert asked(port, "/healthz")[0] == 200, f"{service}: to restart it would help nobody"
            status, found = asked(port, "/readyz")
            assert (status, found["name"] != "", found["kind"]) == (503, True, service)
            assert [name for name, check in found["checks"].items() if not check["ok"]] == ["kafka"]
        broker.start()
        until(lambda: all(asked(port, "/readyz")[0] == 200 for port in ports.values()), "all are ready again")
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(DEADLINE_S)
    for service, log in logs.items():
        lines = said(log, before[service])
        assert len(lines) <= MOST_LINES, f"{service}: {len(lines)} lines"
        assert all(service in line for line in lines), "each names the process"
