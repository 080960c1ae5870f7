"""A broker that is away for some seconds: a service logs a few lines, not thousands; it lives, and is not ready."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from services.node.broker import EmbeddedKafka
from services.node.ports import choose_pair
from tests.support.kafka import running_kafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

OUTAGE_S, DEADLINE_S = 8.0, 90.0
MOST_LINES = 40
"""Of a service in an outage: a line for each kind of message, and their numbers. Without it: hundreds a second."""
SERVICES = ("controller", "recovery", "worker")


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
            [sys.executable, "-m", f"services.{service}"], env={**os.environ, **named}, stdout=output, stderr=output
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


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


def test_an_outage_is_some_lines_of_each_service(broker: EmbeddedKafka, tmp_path: Path) -> None:
    logs = {service: tmp_path / f"{service}.log" for service in SERVICES}
    with ExitStack() as stack:
        ports = {service: choose_pair() for service in SERVICES}
        assert len(set(ports.values())) == len(SERVICES)
        processes = [
            stack.enter_context(running(service, broker, log, ports[service])) for service, log in logs.items()
        ]
        until(lambda: all(asked(port, "/readyz")[0] == 200 for port in ports.values()))
        before = {service: len(log.read_text().splitlines()) for service, log in logs.items()}
        broker.kill()
        time.sleep(OUTAGE_S)  # the length of the outage
        for service, port in ports.items():
            assert asked(port, "/healthz")[0] == 200, f"{service}: to restart it would help nobody"
            status, found = asked(port, "/readyz")
            assert (status, found["name"] != "", found["kind"]) == (503, True, service)
            assert [name for name, check in found["checks"].items() if not check["ok"]] == ["kafka"]
        broker.start()
        until(lambda: all(asked(port, "/readyz")[0] == 200 for port in ports.values()))
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(DEADLINE_S)
    for service, log in logs.items():
        lines = [json.loads(line) for line in log.read_text().splitlines()[before[service] :]]
        assert len(lines) <= MOST_LINES, f"{service}: {len(lines)} lines"
        assert all(service in line for line in lines), "each names the process"
        if service != "worker":  # whose client complains to nobody
            assert sum(line.get("repeated", 0) for line in lines) > 0, "what was left out is counted"
