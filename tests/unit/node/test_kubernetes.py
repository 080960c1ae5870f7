"""infra/kubernetes: what is asked of Kubernetes is valid, and says what the services accept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer import Context
from typer.main import get_command

from holdfast.services.cli.commands import app
from holdfast.services.cli.consoles import PORT
from holdfast.services.node.members.service import Service
from holdfast.services.node.settings import Settings

FOLDER = Path(__file__).parents[3] / "infra" / "kubernetes"
VERSIONS = ("1.29.0", "1.37.0")
"""The oldest that a cloud still serves, and the newest that there is a schema of."""
SERVICES = ("controller", "recovery", "worker")
CONSOLE = "console"


def kustomization() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    return found


def documents() -> list[dict[str, Any]]:
    return [one for name in kustomization()["resources"] for one in yaml.safe_load_all((FOLDER / name).read_text())]


def specs() -> dict[str, dict[str, Any]]:
    """What runs, by name, with the template of its pods."""
    return {one["metadata"]["name"]: one["spec"] for one in documents() if "template" in one.get("spec", {})}


def pods() -> dict[str, dict[str, Any]]:
    """Of the services alone."""
    return {name: spec for name, spec in specs().items() if name != CONSOLE}


def options(command: str) -> tuple[set[str], set[str]]:
    """Options of a command of holdfast, and variables that give them."""
    group: Any = get_command(app)
    found = group.get_command(Context(group), command).params
    return {word for one in found for word in one.opts}, {str(one.envvar) for one in found if one.envvar}


def test_every_file_is_named() -> None:
    assert {path.name for path in FOLDER.glob("*.yaml")} == {*kustomization()["resources"], "kustomization.yaml"}
    assert set(pods()) == set(SERVICES) < set(Service)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_resource_is_valid(version: str) -> None:
    for one in documents():
        kubernetes_validate.validate(one, version, strict=True)


def test_every_setting_exists_and_has_a_value_that_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    (generated,) = kustomization()["configMapGenerator"]
    literals = dict(one.split("=", 1) for one in generated["literals"])
    named = {env["name"] for spec in pods().values() for env in spec["template"]["spec"]["containers"][0]["env"]}
    known = {f"HOLDFAST_{field}".upper() for field in Settings.model_fields} | {"HOLDFAST_CLUSTER_SECRET_FILE"}
    assert literals.keys() | named <= known
    for name, value in literals.items():
        monkeypatch.setenv(name, value)
    Settings()


def test_a_pod_may_end_only_after_its_units_have_moved() -> None:
    (generated,) = kustomization()["configMapGenerator"]
    leave_s = float(dict(one.split("=", 1) for one in generated["literals"])["HOLDFAST_LEAVE_S"])
    for spec in pods().values():
        assert spec["template"]["spec"]["terminationGracePeriodSeconds"] > leave_s + 5


def test_each_budget_and_each_spread_is_that_of_its_service() -> None:
    budgets = {one["metadata"]["name"]: one["spec"] for one in documents() if one["kind"] == "PodDisruptionBudget"}
    assert set(budgets) == set(SERVICES)
    for name, spec in pods().items():
        labels = spec["template"]["metadata"]["labels"]
        pod = spec["template"]["spec"]
        (spread,) = pod["topologySpreadConstraints"]
        (near,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        chosen = (spec["selector"], budgets[name]["selector"], spread["labelSelector"])
        assert [one["matchLabels"] for one in (*chosen, near["podAffinityTerm"]["labelSelector"])] == [labels] * 4


def test_every_container_has_the_probes_of_the_images_and_no_privileges() -> None:
    for name, spec in specs().items():
        (container,) = spec["template"]["spec"]["containers"]
        if name != CONSOLE:
            paths = {kind: container[kind]["httpGet"]["path"] for kind in ("readinessProbe", "livenessProbe")}
            assert paths == {"readinessProbe": "/readyz", "livenessProbe": "/healthz"}
        secured = container["securityContext"]
        assert secured["readOnlyRootFilesystem"]
        assert secured["capabilities"] == {"drop": ["ALL"]}
        assert not secured["allowPrivilegeEscalation"]
        assert "memory" in container["resources"]["limits"]


def test_the_console_is_asked_for_its_port_and_given_settings_that_it_has() -> None:
    spec = specs()[CONSOLE]
    (container,) = spec["template"]["spec"]["containers"]
    assert container["image"] in {one["name"] for one in kustomization()["images"]}
    words, variables = options("console")
    command, *given = container["args"]
    assert command == "console"
    assert {word for word in given if word.startswith("-")} <= words
    assert {one["name"] for one in container["env"]} <= variables
    assert {"name": "HOLDFAST_CONSOLE_READ_ONLY", "value": "true"} in container["env"], "its rights are to read"
    (port,) = container["ports"]
    assert port["containerPort"] == PORT
    assert all(container[f"{kind}Probe"]["tcpSocket"] == {"port": port["name"]} for kind in ("readiness", "liveness"))
    (service,) = [one["spec"] for one in documents() if one["kind"] == "Service" and one["metadata"]["name"] == CONSOLE]
    assert service["selector"] == spec["selector"]["matchLabels"]
    assert [one["targetPort"] for one in service["ports"]] == [port["name"]]


def test_every_mount_secret_and_setting_of_a_pod_is_there() -> None:
    (generated,) = kustomization()["configMapGenerator"]
    file = dict(one.split("=", 1) for one in generated["literals"])["HOLDFAST_CLUSTER_SECRET_FILE"]
    says = (FOLDER / "kustomization.yaml").read_text()
    for name, spec in specs().items():
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"], name
        assert container["envFrom"] == [{"configMapRef": {"name": generated["name"]}}], name
        volumes = {one["name"]: one for one in pod["volumes"]}
        claimed = {one["metadata"]["name"] for one in spec.get("volumeClaimTemplates", ())}
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        assert mounts.keys() == volumes.keys() | claimed, name
        (secret,) = [volume for volume in volumes.values() if "secret" in volume]
        folder, _, key = file.rpartition("/")
        assert mounts[secret["name"]] == folder, name
        assert f"create secret generic {secret['secret']['secretName']} --from-file={key}=" in says, name
        assert not pod["automountServiceAccountToken"], name


def test_the_service_of_the_console_has_the_port_that_is_forwarded() -> None:
    (service,) = [one["spec"] for one in documents() if one["kind"] == "Service" and one["metadata"]["name"] == CONSOLE]
    assert [one["port"] for one in service["ports"]] == [PORT]
    for page in ("console.md", "operations.md"):
        assert f"port-forward service/{CONSOLE} {PORT}" in (FOLDER.parents[1] / "docs" / page).read_text()


def test_drivers_of_spark_share_their_checkpoints_and_hand_over_before_they_end() -> None:
    overlay = yaml.safe_load((FOLDER / "spark" / "kustomization.yaml").read_text())
    assert overlay["namespace"] == kustomization()["namespace"]
    named = {*overlay["resources"][1:], "kustomization.yaml"}
    assert {path.name for path in (FOLDER / "spark").glob("*.yaml")} == named
    given = list(yaml.safe_load_all((FOLDER / "spark" / "spark.yaml").read_text()))
    by_kind = {one["kind"]: one for one in given}
    for version in VERSIONS:
        for one in given:
            kubernetes_validate.validate(one, version, strict=True)
    pod = by_kind["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    settings = {one["name"]: one.get("value") for one in container["env"]}
    assert settings.keys() <= {f"HOLDFAST_{field}".upper() for field in (*Settings.model_fields, "spark_dir")}
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    (shared,) = [one for one in pod["volumes"] if one["name"] == mounts[settings["HOLDFAST_SPARK_DIR"]]]
    claim = by_kind["PersistentVolumeClaim"]
    assert shared["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    others = pods()["worker"]["template"]["spec"]
    for name in ("terminationGracePeriodSeconds", "securityContext", "automountServiceAccountToken"):
        assert pod[name] == others[name]
    labels = by_kind["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert by_kind["Service"]["spec"]["selector"] == labels


def test_controllers_beside_spark_have_its_image_and_their_own_command() -> None:
    overlay = yaml.safe_load((FOLDER / "spark" / "kustomization.yaml").read_text())
    (patch,) = overlay["patches"]
    controller: Any = next(one for one in documents() if one["metadata"]["name"] == patch["target"]["name"])
    assert controller["kind"] == patch["target"]["kind"]
    for step in yaml.safe_load(patch["patch"]):
        *path, last = step["path"].lstrip("/").split("/")
        at = controller
        for part in path:
            at = at[int(part) if isinstance(at, list) else part]
        if last == "-":
            at.append(step["value"])
        else:
            assert (last in at) == (step["op"] == "replace"), step["path"]
            at[last] = step["value"]
    for version in VERSIONS:
        kubernetes_validate.validate(controller, version, strict=True)
    (container,) = controller["spec"]["template"]["spec"]["containers"]
    (image,) = overlay["images"]
    assert (container["image"], container["args"]) == (image["name"], [Service.CONTROLLER])
    assert {"name": "HOLDFAST_METRICS_PORT", "value": str(container["ports"][0]["containerPort"])} in container["env"]
