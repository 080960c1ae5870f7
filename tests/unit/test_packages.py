"""Packages and files stay small enough to be one subject each."""

from __future__ import annotations

from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[2] / "services"
MOST_SHARE = 0.25
LARGER = {"kernel": 0.3}
"""The kernel holds every format and function that users write: all of them are pure, and count for the version of the
code that makes rows (kernel/versions.py), so they have no place elsewhere."""
MOST_LINES = 350
KEPT_SHORT = ("worker", "recovery")
"""Services whose files stay that short."""


def lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def test_no_package_holds_more_than_a_quarter_of_the_lines() -> None:
    packages = [folder for folder in SERVICES.iterdir() if (folder / "__init__.py").exists()]
    sizes = {folder.name: sum(map(lines, folder.rglob("*.py"))) for folder in packages}
    whole = sum(sizes.values())
    assert {name: size for name, size in sizes.items() if size > LARGER.get(name, MOST_SHARE) * whole} == {}


@pytest.mark.parametrize("service", KEPT_SHORT)
def test_no_file_of_the_service_is_long(service: str) -> None:
    sizes = {str(file.relative_to(SERVICES)): lines(file) for file in (SERVICES / service).rglob("*.py")}
    assert {name: size for name, size in sizes.items() if size > MOST_LINES} == {}
