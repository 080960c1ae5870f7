"""Settings come from HOLDFAST_* variables, and a mistyped one is noticed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from holdfast.services.log.kafka.client_settings import client_settings, secret_files
from holdfast.services.log.seal.secret import SecretUnusable
from holdfast.services.node.settings import Settings, described, unknown_variables


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)


def test_every_setting_says_what_it_is() -> None:
    rows = described(Settings())
    assert all(row.description for row in rows)
    assert {"HOLDFAST_HOME", "HOLDFAST_KAFKA", "HOLDFAST_SLOTS"} <= {row.variable for row in rows}


def test_a_variable_sets_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KAFKA_PORT", "9092")
    monkeypatch.setenv("HOLDFAST_KAFKA", "")  # empty is as good as not set
    assert Settings().kafka_port == 9092
    assert Settings().kafka is None


def test_replicas_that_can_never_be_in_sync_are_refused() -> None:
    with pytest.raises(ValidationError, match="HOLDFAST_MIN_INSYNC_REPLICAS=2"):
        Settings(min_insync_replicas=2)


def test_client_properties_are_listed_without_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KAFKA_CLIENT_SASL_MECHANISM", "PLAIN")
    monkeypatch.setenv("HOLDFAST_KAFKA_CLIENT_SASL_PASSWORD", "hunter2")
    shown = {row.variable: row.value for row in described(Settings())}
    assert shown["HOLDFAST_KAFKA_CLIENT_SASL_MECHANISM"] == "PLAIN"
    assert shown["HOLDFAST_KAFKA_CLIENT_SASL_PASSWORD"] == "***"


def test_a_secret_of_the_client_may_be_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    file.write_text("hunter2\n")
    variable = "HOLDFAST_KAFKA_CLIENT_SASL_PASSWORD"
    monkeypatch.setenv(f"{variable}_FILE", str(file))
    assert client_settings() == {"sasl.password": "hunter2"}
    assert secret_files() == {f"{variable}_FILE": file}
    assert {row.variable: row.value for row in described(Settings())}[variable] == "***"
    monkeypatch.setenv(variable, "other")
    with pytest.raises(SecretUnusable, match=f"{variable} and {variable}_FILE are both set"):
        client_settings()
    monkeypatch.delenv(variable)
    file.write_text("\n")
    with pytest.raises(SecretUnusable, match=f"{variable}_FILE: .* is empty"):
        client_settings()
    file.unlink()
    with pytest.raises(SecretUnusable, match=f"{variable}_FILE: the secret cannot be read"):
        client_settings()


def test_a_file_that_librdkafka_reads_itself_is_passed_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KAFKA_CLIENT_SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE", "/etc/key")
    assert client_settings() == {"sasl.oauthbearer.assertion.private.key.file": "/etc/key"}
    assert secret_files() == {}


def test_a_variable_that_nothing_reads_is_told_with_the_one_that_may_be_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SLOT", "3")
    monkeypatch.setenv("HOLDFAST_CACHE", "/tmp/cache")
    monkeypatch.setenv("HOLDFAST_KAFKA_CLIENT_SSL_CA_LOCATION", "/etc/ca.pem")
    assert unknown_variables() == {"HOLDFAST_SLOT": "HOLDFAST_SLOTS"}


OWN = {
    "HOLDFAST_ALL_EXAMPLES", "HOLDFAST_COMPLETE", "HOLDFAST_FEW_EXAMPLES", "HOLDFAST_LIFELINE", "HOLDFAST_TOLD_BY",
}  # fmt: skip
"""Variables that processes of ours and tests give each other."""


def test_doctor_knows_every_variable_that_a_document_a_script_or_a_compose_file_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = Path(__file__).parents[3]
    files = [*root.glob("docs/*.md"), *root.glob("compose/*.y*ml"), *root.glob("scripts/*"), root / "README.md"]
    texts = [file.read_text(encoding="utf-8") for file in [*files, *root.glob("services/**/*.py")] if file.is_file()]
    named = {name for text in texts for name in re.findall(r"HOLDFAST_[A-Z][A-Z_]*[A-Z]\b(?!_)", text)} - OWN
    assert len(named) > 60
    for name in named:
        monkeypatch.setenv(name, "")
    assert sorted(unknown_variables()) == []
