"""Settings come from HOLDFAST_* variables, and a mistyped one is noticed."""

from __future__ import annotations

import os

import pytest
from pydantic import ValidationError

from services.node.settings import Settings, described, unknown_variables


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


def test_a_variable_that_nothing_reads_is_told_with_the_one_that_may_be_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SLOT", "3")
    monkeypatch.setenv("HOLDFAST_CACHE", "/tmp/cache")
    monkeypatch.setenv("HOLDFAST_KAFKA_CLIENT_SSL_CA_LOCATION", "/etc/ca.pem")
    assert unknown_variables() == {"HOLDFAST_SLOT": "HOLDFAST_SLOTS"}
