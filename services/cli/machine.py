"""Commands about this machine and this program: doctor, settings, schema. They need no cluster."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import typer

from holdfast.services.cli.options import DataDir, Json, KafkaAt
from holdfast.services.cli.terminal import coloured, print_json, print_plain, print_table
from holdfast.services.cli.whereabouts import load_settings

if TYPE_CHECKING:
    from holdfast.services.node.doctor import Finding


def doctor(as_json: Json = False, data_dir: DataDir = None, kafka: KafkaAt = None) -> None:
    """Check Java, Kafka, disk and limits, and say what to do."""
    from holdfast.services.node.doctor import Verdict, examine

    findings = examine(load_settings(data_dir, kafka))
    if as_json:
        print_json([dataclasses.asdict(one) for one in findings])
    else:
        _draw(findings)
    if any(one.verdict is Verdict.FAIL for one in findings):
        raise typer.Exit(1)


def _draw(findings: list[Finding]) -> None:
    rows = [(coloured(one.verdict.value), one.name, one.found, one.advice) for one in findings]
    print_table(("", "need", "found", "what to do"), rows)


def settings(as_json: Json = False, data_dir: DataDir = None, kafka: KafkaAt = None) -> None:
    """List every HOLDFAST_* variable with its value and what it does."""
    from holdfast.services.node.settings import described

    found = described(load_settings(data_dir, kafka))
    if as_json:
        print_json([dataclasses.asdict(one) for one in found])
        return
    rows = [(one.variable, one.value, one.default, one.description) for one in found]
    print_table(("variable", "value", "default", "what"), rows)


def schema(as_json: Json = False, data_dir: DataDir = None, kafka: KafkaAt = None) -> None:
    """Print the JSON Schema of job files, for editors; it is JSON either way."""
    import json

    from holdfast.schemas.jobs import JobSpec

    print_json(JobSpec.model_json_schema()) if as_json else print_plain(
        json.dumps(JobSpec.model_json_schema(), indent=2)
    )
