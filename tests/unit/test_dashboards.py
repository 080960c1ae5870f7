"""Dashboards and alerts ask for what the processes export: each metric and each label is in an exposition of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.schemas.assignments import unit_key
from holdfast.schemas.costs import Costs, MicroBatches, TentativeCounts
from holdfast.schemas.events import Event
from holdfast.schemas.heartbeats import CopyState
from holdfast.schemas.plans import QueryState
from holdfast.schemas.topics import TopicSpec
from holdfast.services.controller.core.availability import Availability
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.core.job import Job
from holdfast.services.controller.core.life import Life, Phase
from holdfast.services.controller.meters import OF_CONTROLLER, of_jobs
from holdfast.services.hosting.lags import Taken, of_lags
from holdfast.services.hosting.metrics import OF_COPIES, of_copies
from holdfast.services.log.memory import MemoryLog
from holdfast.services.process.metrics import OF_PROCESSES, of_process, of_refusals
from holdfast.services.process.metrics_server import registry_of
from holdfast.services.recovery.meters import OF_RECOVERY, Meters
from tests.support.alerting import INFRA, RULES, exposition
from tests.support.promql import Aggregate, Binary, Node, Selector, nodes, parse
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import G, World

DASHBOARDS = sorted((INFRA / "grafana" / "dashboards").glob("*.json"))
PROVISIONING = INFRA / "grafana" / "provisioning"
UNIT = unit_key("job", G, "u-0")
OF_HISTOGRAMS = ("_bucket", "_sum", "_count")
VARIABLES = {"$__rate_interval": "5m", "$__range": "1h", "$job": "a"}


def exported() -> dict[str, set[str]]:
    """Labels by metric, of processes that have something to say of everything."""
    log = MemoryLog(lambda: 0)
    log.create([TopicSpec("clicks", 1)])
    costs = Costs(
        UNIT, {"clicks": (1, 1)}, {"out": 1}, leads=True, checkpoint_age_ms=1.0, deploy_ms=1.0, restore_cpu_ms=1.0,
        sink_bytes={"out": 1}, tentative={"q": TentativeCounts(1)},
        micro_batches=MicroBatches(1, 1, parts_ms={"addBatch": 1.0}),
    )  # fmt: skip
    core = Controller("c", 100)
    core.jobs[G] = Job(G, "job", units={UNIT: "u-0"}, life=Life("", Phase.RUNNING), availability=_measured())
    meters = Meters(World(Worker("w1", "a"), Worker("w2", "b")).start().settle().replicas[0].core.known, 0, name="r")
    meters.count(Event(1, "unit-active", phases_ms={"activation": 5.0}))
    total = {"total": 5.0}
    meters.count(Event(1, "promise-kept", "job", phases_ms=total, predicted_ms=total, promise_ms=9.0))
    registries = [
        registry_of(
            of_process("w1", "worker"),
            of_copies(lambda: (CopyState(UNIT, 1, "running"),), lambda _: (costs,)),
            of_lags(log, lambda: [Taken(UNIT, "clicks", "clicks", {0: 0}, 0)]),
            of_refusals(lambda: {"t": 1}),
        ),
        registry_of(of_process("c", "controller"), of_jobs(core)),
        meters.registry,
    ]
    found: dict[str, set[str]] = {}
    for registry in registries:
        for name, vector in exposition(registry, "i").items():
            found.setdefault(name, set()).update(label for labels in vector for label, _ in labels)
    return found


def _measured() -> Availability:
    """A query of which is known how fast it is, and was."""
    found = Availability({"q": frozenset({"u-0"})}, {"q": frozenset({"u-0"})})
    found.knows([QueryState("q", True, 1, before_ms=5.0)])
    found.look({"u-0": ("w1", "a")}, 0)
    for latencies in (1, 2):
        found.read("u-0", ("w1", "a"), Costs("u-0", latencies=latencies, latency_ms=latencies), latencies)
    found.look({"u-0": ("w1", "a")}, 3)
    return found


EXPORTED = exported()


def panels(dashboard: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(dashboard.read_text())["panels"]
    return found


def read(text: str) -> Node:
    for variable, value in VARIABLES.items():
        text = text.replace(variable, value)
    return parse(text)


def expressions() -> Iterator[tuple[str, str]]:
    """With where each stands."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        yield from ((rule["alert"], rule["expr"]) for rule in group["rules"])
    for file in DASHBOARDS:
        for panel in panels(file):
            yield from ((f"{file.stem}: {panel['title']}", target["expr"]) for target in panel["targets"])


def selected(node: Node) -> set[str]:
    """Labels of all that a tree selects."""
    names = [one.name for one in nodes(node) if isinstance(one, Selector)]
    return set().union(*(EXPORTED.get(name, set()) for name in names))


def test_every_metric_that_is_declared_is_exported() -> None:
    for metric in (*OF_PROCESSES, *OF_COPIES, *OF_CONTROLLER, *OF_RECOVERY):
        names = [metric.name + end for end in OF_HISTOGRAMS] if metric.kind == "histogram" else [metric.name]
        for name in names:
            assert set(metric.labels) <= EXPORTED[name], name


@pytest.mark.parametrize(("where", "text"), list(expressions()))
def test_an_expression_asks_for_metrics_and_labels_that_there_are(where: str, text: str) -> None:
    for node in nodes(read(text)):
        match node:
            case Selector(name, matchers):
                assert name in EXPORTED, f"{where}: nobody exports {name}"
                assert {matcher.label for matcher in matchers} <= EXPORTED[name], f"{where}: {text}"
            case Aggregate(_, of, labels):
                assert set(labels) <= selected(of), f"{where}: {text}"
            case Binary(_, left, right, on, many):
                assert set(on or ()) <= selected(left) & selected(right), f"{where}: {text}"
                assert set(many or ()) <= selected(right), f"{where}: {text}"


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_a_legend_names_labels_that_the_panel_has(file: Path) -> None:
    for panel in panels(file):
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert named <= kept(read(target["expr"])), f"{panel['title']}: {target['expr']}"


def kept(node: Node) -> set[str]:
    """Labels of the outcome."""
    match node:
        case Aggregate(_, of, labels, without):
            return selected(of) - set(labels) if without else set(labels)
        case Binary(_, left, right, _, many):
            found = kept(left) | kept(right) if not kept(left) else kept(left)
            return found | set(many or ())
        case Selector(name):
            return EXPORTED[name]
    return set().union(*(kept(one) for one in nodes(node) if one is not node and not isinstance(one, Selector))) or (
        selected(node)
    )


def test_there_are_four_dashboards_and_each_metric_is_on_one() -> None:
    """Or in an alert; batches and labels of processes serve others."""
    assert {file.stem for file in DASHBOARDS} == {"job", "takeovers", "checkpoints", "cost"}
    shown = {one.name for _, text in expressions() for one in nodes(read(text)) if isinstance(one, Selector)}
    silent = {name for name in EXPORTED if name.startswith("holdfast_") and not name.endswith("_created")} - shown
    assert silent <= {"holdfast_jobs"}, "the others nobody sees"


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_panels_lie_side_by_side_and_ask_the_provisioned_source(file: Path) -> None:
    source = yaml.safe_load((PROVISIONING / "datasources" / "prometheus.yml").read_text())["datasources"][0]["uid"]
    taken: set[tuple[int, int]] = set()
    for panel in panels(file):
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
        assert {panel["datasource"]["uid"], *(target["datasource"]["uid"] for target in panel["targets"])} == {source}
        assert panel["fieldConfig"]["defaults"]["unit"]
    assert len({panel["id"] for panel in panels(file)}) == len(panels(file))


def test_the_provisioned_folder_is_the_one_that_compose_mounts() -> None:
    provider = yaml.safe_load((PROVISIONING / "dashboards" / "holdfast.yml").read_text())["providers"][0]
    compose = (INFRA.parent / "compose" / "observability.yaml").read_text()
    assert f"dashboards:{provider['options']['path']}:ro" in compose


def test_prometheus_leaves_our_label_job_as_it_is() -> None:
    """Without honor_labels it would be `exported_job`, and no dashboard would show anything."""
    (scrape,) = yaml.safe_load((INFRA / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert scrape["honor_labels"] is True


@pytest.mark.parametrize("name", ["compose.yaml", "compose.small.yaml"])
def test_prometheus_looks_for_every_service_that_has_metrics(name: str) -> None:
    services = yaml.safe_load((INFRA.parent / "compose" / name).read_text())["services"]
    ours = {service for service, of in services.items() if of.get("build", {}).get("target") not in (None, "cli")}
    (scrape,) = yaml.safe_load((INFRA / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert ours <= set(scrape["dns_sd_configs"][0]["names"])
    assert {"prometheus", "grafana"} <= services.keys()


def test_published_ports_are_on_loopback() -> None:
    """Of every compose file: Kafka's outer listener, Prometheus and Grafana."""
    for file in (INFRA.parent / "compose").glob("*.yaml"):
        for service, of in (yaml.safe_load(file.read_text()).get("services") or {}).items():
            for port in of.get("ports", []):
                assert str(port).startswith("127.0.0.1:"), f"{file.name}: {service} listens at {port}"
