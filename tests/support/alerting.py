"""Our alerts over what our exporters say: scraped as infra/prometheus/prometheus.yml says, evaluated at its pace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.promql import Labels, Node, Scrapes, Vector, evaluate, parse, seconds

INFRA = Path(__file__).parents[2] / "infra"
RULES = INFRA / "prometheus" / "alerts.yml"
INTERVAL_S = 15
SCRAPED_AS = "holdfast"
"""Value of `job` for metrics that have no such label."""

Scene = Callable[[float], Mapping[str, CollectorRegistry]]
"""The targets that answer at a time, by instance."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule. for_s: its expression must hold for so long."""

    name: str
    expression: Node
    for_s: float
    severity: str
    runbook: str


def alerts() -> list[Alert]:
    """All that there are."""
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    return [_alert(rule) for rule in rules]


def _alert(rule: dict[str, Any]) -> Alert:
    for_s = seconds(rule.get("for", "0s"))
    return Alert(rule["alert"], parse(rule["expr"]), for_s, rule["labels"]["severity"], rule["annotations"]["runbook"])


def exposition(registry: CollectorRegistry, instance: str) -> dict[str, Vector]:
    """Result of a scrape of it, as Prometheus labels it."""
    found: dict[str, Vector] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = {"job": SCRAPED_AS, **sample.labels, "instance": instance}
            found.setdefault(sample.name, {})[frozenset(labels.items())] = sample.value
    return found


def scrapes(scene: Scene, until_s: float) -> Scrapes:
    """From 0 on."""
    found = Scrapes()
    for at_s in times(until_s):
        for instance, registry in scene(at_s).items():
            found.add(at_s, instance, exposition(registry, instance))
    return found


def times(until_s: float) -> Iterator[int]:
    yield from range(0, int(until_s) + 1, INTERVAL_S)


def fired(alert: Alert, scraped: Scrapes, until_s: float) -> dict[Labels, int]:
    """Alerts that fire at the end, and since when."""
    since: dict[Labels, int] = {}
    for at_s in times(until_s):
        holds = evaluate(alert.expression, scraped, at_s)
        since = {labels: since.get(labels, at_s) for labels in holds}
    return {labels: at_s for labels, at_s in since.items() if until_s - at_s >= alert.for_s}
