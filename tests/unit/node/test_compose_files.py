"""The compose files: no service without limits of what it may take and what it may keep."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

COMPOSE = Path(__file__).parents[3] / "compose"


@pytest.mark.parametrize("name", ["compose.yaml", "compose.small.yaml", "compose.spark.yaml", "observability.yaml"])
def test_every_service_has_limits_of_processors_memory_and_what_it_prints(name: str) -> None:
    for service, of in yaml.safe_load((COMPOSE / name).read_text())["services"].items():
        if "extends" in of or (name == "compose.spark.yaml" and service == "controller"):
            continue  # what it has elsewhere
        limits = of["deploy"]["resources"]["limits"]
        assert limits["cpus"], service
        assert limits["memory"], service
        assert of["logging"]["options"].keys() == {"max-size", "max-file"}, service
