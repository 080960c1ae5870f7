"""Packages and files stay small enough to be one subject each."""

from __future__ import annotations

from pathlib import Path

SERVICES = Path(__file__).parents[2] / "services"
MOST_SHARE = 0.25
MOST_LINES_OF_THE_WORKER = 350


def lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def test_no_package_holds_more_than_a_quarter_of_the_lines() -> None:
    packages = [folder for folder in SERVICES.iterdir() if (folder / "__init__.py").exists()]
    sizes = {folder.name: sum(map(lines, folder.rglob("*.py"))) for folder in packages}
    most = MOST_SHARE * sum(sizes.values())
    assert {name: size for name, size in sizes.items() if size > most} == {}


def test_no_file_of_the_worker_is_long() -> None:
    sizes = {str(file.relative_to(SERVICES)): lines(file) for file in (SERVICES / "worker").rglob("*.py")}
    assert {name: size for name, size in sizes.items() if size > MOST_LINES_OF_THE_WORKER} == {}
