"""Packages stay small enough to be one subject each; tests/unit/test_cohesion.py has the limits of classes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[2] / "services"
MOST_SHARE = 0.25
LARGER = {"kernel": 0.3}
"""The kernel holds every format and function that users write: all of them are pure, and count for the version of the
code that makes rows (kernel/versions.py), so they have no place elsewhere."""


def lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def test_no_package_holds_more_than_a_quarter_of_the_lines() -> None:
    packages = [folder for folder in SERVICES.iterdir() if (folder / "__init__.py").exists()]
    sizes = {folder.name: sum(map(lines, folder.rglob("*.py"))) for folder in packages}
    whole = sum(sizes.values())
    assert {name: size for name, size in sizes.items() if size > LARGER.get(name, MOST_SHARE) * whole} == {}


def allowed(package: str) -> set[str]:
    """Packages below it, by the first contract of the linter."""
    rules = tomllib.loads((SERVICES.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = [re.findall(r"holdfast\.services\.(\w+)", layer) for layer in rules["contracts"][0]["layers"]]
    at = next(place for place, layer in enumerate(layers) if package in layer)
    return {name for layer in layers[at + 1 :] for name in layer}


@pytest.mark.parametrize("package", sorted(folder.parent.name for folder in SERVICES.glob("*/__init__.py")))
def test_each_package_says_what_it_may_import_and_where_its_tests_are(package: str) -> None:
    text = (SERVICES / package / "README.md").read_text(encoding="utf-8")
    said = re.search(r"^It may import: ([^.]*)\.$", text, re.MULTILINE)
    assert said is not None
    assert set(re.split(r",\s+", said[1])) == allowed(package) | {"schemas"}
    tests = re.findall(r"`(tests/[\w/.]+)`", text)
    assert tests
    assert [path for path in tests if not (SERVICES.parent / path).exists()] == []
