"""Tables of every command fit 100 columns where no terminal reads them, and cut no word, whatever the names are."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.schemas.plans import QueryState
from holdfast.services.cli import status as looking
from holdfast.services.cli import terminal
from holdfast.services.cli.tables import shared
from holdfast.services.view.lines import CopyLine, JobStatus, UnitLine, UnitProgress

LONG = "a_name_as_long_as_people_write_them_when_every_team_puts_its_own_in_front"
CLI = Path(terminal.__file__).parent
FLAGS = {"receive": True, "process": True, "send": True, "commit": True, "checkpoint_target": True}


def fits(text: str) -> bool:
    """Each line does, but for words that are wider by themselves."""
    return all(len(line) <= terminal.PIPED_WIDTH or len(line.split()) == 1 for line in text.splitlines())


def words(cells: Iterable[object]) -> set[str]:
    """All of these are numbers or texts."""
    shown = (f"{cell:,}" if isinstance(cell, int) else str(cell or "") for cell in cells)
    return {word for text in shown for word in text.split()}


NARROW = ["", "", "", "", "___", "___", "____", "", "", "", "_______", ""]
"""Heads of a table in which a cell has no room but for its longest word."""
FIRST = [None, None, None, "________", None, None, None, None, None, 10_000, None, None]
SECOND = [None, None, "___________", None, None, None, None, 100_000_000, " _________", None, None, 10_000_000_000]


@example((NARROW, [FIRST, SECOND]))
@given(
    st.integers(1, 12).flatmap(
        lambda columns: st.tuples(
            st.lists(st.text("ab cd-_", max_size=30), min_size=columns, max_size=columns),
            st.lists(
                st.lists(
                    st.one_of(st.none(), st.integers(0, 10**15), st.text("ab cd-_/.", max_size=300)),
                    min_size=columns,
                    max_size=columns,
                ),
                max_size=4,
            ),
        )
    )
)
def test_any_table_fits_and_no_word_is_cut(table: tuple[list[str], list[list[object]]]) -> None:
    columns, rows = table
    text = piped([terminal.drawn(columns, rows, title=f"{LONG} of {LONG}")])
    assert fits(text)
    assert words([LONG, *(cell for row in rows for cell in row)]) <= set(text.split())


def piped(parts: list[object]) -> str:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as out:
        terminal.show(parts)
    return out.getvalue()


def status() -> JobStatus:
    unit = UnitProgress(
        LONG, f"{LONG}-worker", "running", 10**9, 10**9, "2026-01-01T00:00:00.123456+00:00", 10**9, 10**6, 10**6, 10**6,
        False, f"{LONG}: {LONG}",
    )  # fmt: skip
    query = QueryState(LONG, True, 1_700_000_000_000, 12.5, 10.0, 1.25)
    return JobStatus(LONG, "1-aaaaaa", "running", 1, "", (), (), 10**9, 1, 1, 1, (unit,), queries=(query,))


def test_the_tables_of_status_and_units_fit_with_long_names() -> None:
    tables = [part for part in looking.status_parts(status()) if hasattr(part, "columns")]
    assert len(tables) == 2
    copies = tuple(CopyLine(f"{LONG}-{n}", "secondary", FLAGS, 10**9, "running", "1") for n in range(2))
    line = UnitLine(LONG, (LONG, LONG), "active-replication", 12, copies, "idle-roundrobin")
    text = piped([*tables, *looking.unit_tables([line])])
    assert fits(text)
    assert {LONG, f"{LONG}-0", f"{LONG}-1", f"{LONG}-worker", "active-replication"} <= set(text.split()), "none is cut"


def test_status_and_units_show_a_usual_job_in_columns() -> None:
    copies = tuple(CopyLine(f"worker-{n}", "secondary", FLAGS, 10**9, "running", "1") for n in range(2))
    at = "2026-01-01T00:00:00.123456+00:00"
    unit = UnitProgress("daily-0", "worker-1", "running", 123_456, 123_450, at, 12_345_678, 10, 1, 0, False, "an error")
    found = msgspec.structs.replace(status(), units=(unit,))
    line = UnitLine("daily-0", ("daily-0", "late-0"), "active-replication", 12, copies, "idle-roundrobin")
    lines = piped([*looking.unit_tables([line]), *looking.status_parts(found)]).splitlines()
    heads = ("unit     tasks", "unit     role", "unit     worker")
    assert all(any(one.startswith(head) for one in lines) for head in heads)


def test_a_row_with_more_words_than_a_line_has_room_for_is_a_block_with_its_labels() -> None:
    text = piped([terminal.drawn(("unit", "worker", "lost"), [(LONG, f"{LONG}-worker", 7)])])
    assert [line.split() for line in text.split("\n") if line] == [
        ["unit", LONG],
        ["worker", f"{LONG}-worker"],
        ["lost", "7"],
    ]


def test_room_that_is_left_goes_to_columns_that_want_more() -> None:
    assert shared([4, 4, 4], [4, 10, 30], 20) == [4, 10, 18]
    assert shared([4, 4], [6, 6], 20) == [6, 6]


def test_a_column_that_says_nothing_is_left_out() -> None:
    text = piped([terminal.drawn(("unit", "error", "lost"), [("a-0", "", 0), ("b-0", "", 1)])])
    assert "error" not in text
    assert "lost" in text


@pytest.mark.parametrize("path", sorted(CLI.glob("*.py")), ids=lambda path: path.stem)
def test_commands_draw_tables_in_one_way_alone(path: Path) -> None:
    """`up` in the foreground draws for its terminal only."""
    imported = {n.module for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)}
    assert "rich.table" not in imported or path.stem in ("tables", "foreground")
