"""A wrong password is said to be one: at once, with the settings to mend, and not as a broker that does not answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.kafka.login import LoginRefused
from holdfast.services.node.kafka.broker import EmbeddedKafka
from holdfast.services.node.machine.ports import choose_pair

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SASL = """
listeners=CLIENTS://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},LOGINS://127.0.0.1:{logins}
advertised.listeners=CLIENTS://127.0.0.1:{port},LOGINS://127.0.0.1:{logins}
listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGINS:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.logins.plain.sasl.jaas.config={module} required user_me="right";
"""
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
HOLDFAST = Path(sys.executable).parent / "holdfast"


class WithLogins(EmbeddedKafka):
    """Listens at a third port, where a client must say who it is."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.logins = choose_pair()

    def _fill(self, port: int, *names: str) -> None:
        super()._fill(port, *names)
        if "server.properties" in names:
            file = self.data_dir / "server.properties"
            added = SASL.format(port=port, controller=port + 1, logins=self.logins, module=MODULE)
            file.write_text(file.read_text() + added)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithLogins]:
    broker = WithLogins(tmp_path_factory.mktemp("logins"))
    broker.start()
    yield broker
    broker.stop()


def login(password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me",
        "sasl.password": password,
    }  # fmt: skip


def test_the_right_password_opens_the_log(broker: WithLogins) -> None:
    log = KafkaLog(f"127.0.0.1:{broker.logins}", login("right"), "right")
    assert log.topics() == {}
    log.close()


def test_a_wrong_password_is_called_one_by_every_request(broker: WithLogins) -> None:
    log = KafkaLog(f"127.0.0.1:{broker.logins}", login("wrong"), "wrong")
    for ask in (log.topics, lambda: log.describe(["t"]), lambda: log.config("t")):
        with pytest.raises(LoginRefused) as refused:
            ask()
        said = str(refused.value)
        assert "refuses the login of user 'me' by PLAIN" in said
        assert "Authentication failed" in said
        assert "HOLDFAST_KAFKA_CLIENT_SASL_PASSWORD (or HOLDFAST_KAFKA_CLIENT_SASL_PASSWORD_FILE)" in said
        assert "wrong" not in said, "the password itself is in no message"
    log.close()


def test_a_broker_that_is_away_is_not_called_a_wrong_password() -> None:
    log = KafkaLog(f"127.0.0.1:{choose_pair()}", login("right"), "away")
    with pytest.raises(Retriable) as away:
        log.topics()
    assert not isinstance(away.value, LoginRefused)
    assert "Check that the broker runs" in str(away.value)
    log.close()


def test_a_command_says_it_at_once(broker: WithLogins, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("wrong\n")
    named = {f"HOLDFAST_KAFKA_CLIENT_{name.upper().replace('.', '_')}": value for name, value in login("").items()}
    named.pop("HOLDFAST_KAFKA_CLIENT_SASL_PASSWORD")
    named["HOLDFAST_KAFKA_CLIENT_SASL_PASSWORD_FILE"] = str(password)
    began_s = time.monotonic()
    done = subprocess.run(
        [str(HOLDFAST), "list", "--kafka", f"127.0.0.1:{broker.logins}", "--data-dir", str(tmp_path)],
        env={**os.environ, **named}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "refuses the login of user 'me'" in " ".join(done.stderr.split())
    assert "HOLDFAST_KAFKA_CLIENT_SASL_PASSWORD" in done.stderr
    assert time.monotonic() - began_s < 15, "it does not wait for what a person must mend"
    password.write_text("right\n")
    done = subprocess.run(
        [str(HOLDFAST), "list", "--kafka", f"127.0.0.1:{broker.logins}", "--data-dir", str(tmp_path)],
        env={**os.environ, **named}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "there is no cluster" in done.stderr
