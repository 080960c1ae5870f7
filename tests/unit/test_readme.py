"""The README is short, its links and commands exist, and each figure names the command that prints it."""

from __future__ import annotations

import re
from pathlib import Path

from bench.catalogue import MEASURES
from holdfast.services.cli.commands import COMMANDS
from tests.support.readme import README, job_files, steps

ROOT = Path(__file__).parents[2]
MOST_LINES = 170
OF_THEIR_OWN = {"failover", "incident", "promises", "against", "detectors", "compose", "outages"}
"""Measures that ./scripts/bench has beside its table."""
TEXT = README.read_text(encoding="utf-8")
_NUMBER = re.compile(r"\d")


def test_the_readme_is_short() -> None:
    assert len(TEXT.splitlines()) <= MOST_LINES


def test_each_figure_names_the_command_that_prints_it() -> None:
    assert len(figures(TEXT.partition("## Six figures")[2].partition("\n## ")[0])) == 6


def test_each_figure_of_the_page_about_performance_names_its_command() -> None:
    assert len(figures((ROOT / "docs" / "performance.md").read_text(encoding="utf-8"))) >= 19


def figures(text: str) -> list[str]:
    """Of a table with measure, figure and command."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")][2:]
    known = OF_THEIR_OWN | {measure.name for measure in MEASURES}
    for _, figure, command in rows:
        assert _NUMBER.search(figure)
        found = re.fullmatch(r"`\./scripts/(?:bench ((?:[\w-]+ ?)+)|demo)`", command)
        assert found is not None, command
        assert set((found[1] or "").split()) <= known, command
    return [figure for _, figure, _ in rows]


def test_commands_that_the_readme_names_exist() -> None:
    known = {command.name for command in COMMANDS}
    named = {found for found in re.findall(r"holdfast ([a-z][a-z-]*)\b", "\n".join(re.findall(r"`([^`\n]+)`", TEXT)))}
    typed = {step.command.split()[1] for step in steps() if step.command.startswith("holdfast ")}
    assert (named | typed) - known == set()
    assert {"try", "up", "submit", "kill", "replay"} <= typed


def test_scripts_that_the_readme_names_exist() -> None:
    for script in re.findall(r"\./scripts/(\w+)", TEXT):
        assert (ROOT / "scripts" / script).exists(), script


def test_the_readme_names_every_scheme() -> None:
    from holdfast.schemas.job_settings import SCHEME_NAMES

    assert [name for name in SCHEME_NAMES if f"`{name}`" not in TEXT] == []


def test_the_job_of_the_tour_is_one() -> None:
    from holdfast.services.planning.loader import load

    ((name, text),) = job_files().items()
    assert load(text, name).name == "delays"
