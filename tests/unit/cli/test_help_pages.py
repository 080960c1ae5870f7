"""Help is text that flows in the width of the terminal."""

from __future__ import annotations

from importlib.metadata import version
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from holdfast.services.cli.commands import COMMANDS, app, flowing


def test_breaks_of_a_docstring_are_none_of_the_page() -> None:
    assert flowing("One\n    two.\n\n    Three\n    four.\n") == "One two.\n\nThree four."
    assert flowing("One.\n\n    \b\n    a  1\n    b  2\n") == "One.\n\n\b\na  1\nb  2"


@pytest.mark.parametrize("width", [60, 80])
def test_no_line_of_a_page_is_shorter_than_its_next_word_asks(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", width)
    for command in COMMANDS:
        page = CliRunner().invoke(app, [command.name, "--help"]).stdout
        prose = page.partition("\u256d")[0].splitlines()
        for line, after in pairwise(prose):
            if command.name != "completion" and line.strip() and after.strip():
                assert len(line.rstrip()) + len(after.split()[0]) >= width - 2, (command.name, line, after)


def test_the_version_is_printed() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert done.exit_code == 0
    assert done.stdout.startswith(f"holdfast {version('holdfast-streams')}, Python ")
