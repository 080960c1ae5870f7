"""docs/failures.md says what the code does about each error."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from holdfast.services import kernel, log, worker
from holdfast.services.controller import drafter
from holdfast.services.kernel.errors import CommandFailed, HoldfastError, JobRejected, Retriable
from holdfast.services.recovery.core.unit.facts import crashes
from holdfast.services.recovery.core.unit.rules.blame import PAUSE_US
from holdfast.services.spark.core import lifecycle as spark
from holdfast.services.worker.core.reactions import MOST_TEXT, OF_DELIVERY, REACTIONS, Reaction, cause_of, reaction
from holdfast.services.worker.core.rebuilds import MAX_REBUILDS
from holdfast.services.worker.isolated import code
from holdfast.services.worker.isolated.code_process import CodeEnded

TEXT = (Path(__file__).parents[3] / "docs" / "failures.md").read_text(encoding="utf-8")
NOT_OF_COPIES = {
    "JobRejected": "of a job file: it never has copies",
    "CommandFailed": "of a command",
    "SecretUnusable": "of settings: the process does not start",
    "SecretDiffers": "of settings: the process does not start",
    "CodeEnded": "becomes CodeCrashed where code runs",
    "RegistryUnusable": "becomes what a source waits for (worker/sources/fetched.py), or ends a command",
}


def rows(section: str) -> list[list[str]]:
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in lines]


def tables() -> list[list[list[str]]]:
    """Without their heads."""
    found = re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE)
    return [[row for row in rows(table)[1:] if not set(row[0]) <= {"-", "|"}] for table in found]


def test_the_page_lists_what_a_copy_does_about_every_error() -> None:
    usual, delivering, _ = tables()
    assert {row[0]: row[2] for row in usual} == {kind.__name__: asked.value for kind, asked in REACTIONS.items()}
    assert {row[0]: row[2] for row in delivering} == {kind.__name__: one.value for kind, one in OF_DELIVERY.items()}


def test_the_page_says_how_often() -> None:
    counts = [int(row[1]) for row in tables()[2]]
    assert counts == [
        MAX_REBUILDS, crashes.MOST_FAULTS, crashes.MOST_CRASHES, code.MOST_CRASHES, spark.MAX_FAILURES,
        drafter.MOST_ERRORS,
    ]  # fmt: skip
    assert f"a pause of {PAUSE_US // 1_000_000} s" in TEXT
    assert f"counts for {crashes.LOADING_MS // 60_000} minutes" in TEXT


def kinds() -> set[type[Exception]]:
    """Every error of ours that the modules of a worker can raise."""
    for package in (worker, kernel, log):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    found, left = set[type[Exception]](), [HoldfastError]
    while left:
        further = left.pop().__subclasses__()
        found |= set(further)
        left += further
    return {
        kind
        for kind in found
        if kind.__module__.startswith(("holdfast.services.worker", "holdfast.services.kernel", "holdfast.services.log"))
    }


def test_every_error_of_ours_has_a_row_or_never_reaches_a_copy() -> None:
    """A new one is not taken for unexpected: its author decides."""
    named = {*REACTIONS, *OF_DELIVERY} - {Exception}
    assert {one.__name__ for one in kinds() if not issubclass(one, tuple(named))} == set(NOT_OF_COPIES)


@pytest.mark.parametrize("error", [KeyError(7), AssertionError(), CodeEnded("x"), OSError(5, "x"), MemoryError()])
def test_an_error_that_is_not_in_the_table_is_tried_again(error: Exception) -> None:
    assert reaction(error) is Reaction.FAULT
    assert reaction(error, delivering=True) is Reaction.FAULT


def test_an_error_that_asks_a_person_fails_the_job() -> None:
    asking = [kind for kind, asked in REACTIONS.items() if asked is Reaction.FAIL]
    assert all(issubclass(kind, HoldfastError) for kind in asking)
    assert not {JobRejected, CommandFailed} & set(asking)
    assert reaction(Retriable("x")) is Reaction.REBUILD
    assert reaction(Retriable("x"), delivering=True) is Reaction.REOPEN


def test_a_cause_has_the_error_and_where_it_was_the_innermost_place_first() -> None:
    def inner() -> None:
        raise KeyError("seven" * MOST_TEXT)

    try:
        inner()
    except KeyError as error:
        found = cause_of(error)
    assert found.startswith("KeyError: 'sevenseven")
    assert re.search(r", at worker/test_reactions\.py:\d+ inner < worker/test_reactions\.py:\d+ test_a_cause", found)
    assert len(found) <= MOST_TEXT
    assert cause_of(ValueError("never raised")) == "ValueError: never raised"
