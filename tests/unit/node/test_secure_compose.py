"""The overlays with TLS, logins and rights fit the compose files: no service is left out, nothing is in plain text."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.schemas.rights import Role, user
from holdfast.services.controller.settings import ControllerSettings
from holdfast.services.log.kafka.client_settings import CLIENT_PREFIX, client_settings

ROOT = Path(__file__).parents[3]
COMPOSE = ROOT / "compose"
PAIRS = {"compose.yaml": "compose.secure.yaml", "compose.small.yaml": "compose.small.secure.yaml"}
ROLES = {"controller": Role.CONTROLLER, "recovery": Role.RECOVERY, "worker": Role.WORKER, "cli": Role.OPERATOR}
READ_ONLY = {"HOLDFAST_CONSOLE_READ_ONLY": "true"}


def services(name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((COMPOSE / name).read_text())["services"]
    return found


def variables(name: str) -> dict[str, str]:
    lines = [line for line in (COMPOSE / "secure" / name).read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize(("base", "overlay"), PAIRS.items())
def test_each_service_has_the_login_of_its_role(base: str, overlay: str) -> None:
    secured = services(overlay)
    for name, of in services(base).items():
        target = of.get("build", {}).get("target")
        if target is None:
            continue
        role, found = Role.CONSOLE if name == Role.CONSOLE else ROLES[target], secured[name]
        assert found["environment"] == {
            f"{CLIENT_PREFIX}SASL_USERNAME": user("holdfast", role),
            f"{CLIENT_PREFIX}SASL_PASSWORD_FILE": f"/run/secrets/{role}",
            **(READ_ONLY if role is Role.CONSOLE else {}),
        }
        assert found["secrets"] == ["ca.pem", role]
        assert found["env_file"] == ["secure/services.env"]
        assert "setup" in found["depends_on"]


@pytest.mark.parametrize(("base", "overlay"), PAIRS.items())
def test_every_broker_has_keys_and_no_listener_without_tls(base: str, overlay: str) -> None:
    brokers = {name for name, of in services(base).items() if of.get("image", "").startswith("apache/kafka")}
    common = variables("kafka.env")
    protocols = dict(one.split(":") for one in common["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    assert set(protocols.values()) == {"SSL", "SASL_SSL"}
    for name in brokers:
        found = services(overlay)[name]
        assert found["env_file"] == ["secure/kafka.env"]
        listeners = {one.split("://")[0] for one in found["environment"]["KAFKA_LISTENERS"].split(",")}
        assert listeners == protocols.keys()
        advertised = re.findall(r"(\w+)://([^:,]+)", found["environment"]["KAFKA_ADVERTISED_LISTENERS"])
        assert dict(advertised) == {"BROKERS": name, "INTERNAL": name, "OUTSIDE": "localhost"}
        assert f"{name}:9094" in services(overlay)["setup"]["environment"]["HOLDFAST_KAFKA"]


def test_services_know_every_setting_that_compose_gives_them() -> None:
    found = variables("services.env")
    ours = {name for name in found if not name.startswith(CLIENT_PREFIX)}
    assert {name.removeprefix("HOLDFAST_").lower() for name in ours} <= ControllerSettings.model_fields.keys()
    assert client_settings(found) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "ssl.ca.location": "/run/secrets/ca.pem",
    }


def test_the_script_makes_what_the_overlays_name_and_renews_it(tmp_path: Path) -> None:
    script, folder = ROOT / "infra" / "security" / "certificates", tmp_path / "security"
    environment = {**os.environ, "HOLDFAST_UID": str(os.getuid()), "HOLDFAST_KAFKA_UID": str(os.getuid())}

    def make() -> dict[str, bytes]:
        subprocess.run([str(script), str(folder), "kafka-1"], check=True, capture_output=True, env=environment)
        return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    first, second = make(), make()
    for overlay in PAIRS.values():
        for secret in yaml.safe_load((COMPOSE / overlay).read_text())["secrets"].values():
            assert secret["file"].removeprefix("${HOLDFAST_SECURITY:-./security}/") in first
    assert {name for name in first if name.startswith("users/")} == {f"users/{role}" for role in Role}
    renewed = {name for name in first if first[name] != second[name]}
    assert renewed == {"broker.pem", "broker.key", "broker.crt", "admin.pem", "admin.key", "admin.crt", "ca.srl"}
    for name in ("ca.key", "broker.key", "admin.key", "cluster.secret", "users/worker"):
        assert (folder / name).stat().st_mode & 0o077 == 0, name
    for name in ("broker.crt", "admin.crt"):
        verify = ["openssl", "verify", "-CAfile", str(folder / "ca.pem"), str(folder / name)]
        subprocess.run(verify, check=True, capture_output=True)
    dates = subprocess.run(
        ["openssl", "x509", "-in", str(folder / "broker.crt"), "-noout", "-checkend", str(91 * 86_400)],
        check=False, capture_output=True,
    )  # fmt: skip
    assert dates.returncode == 1, "it is valid for 90 days, and no longer"
