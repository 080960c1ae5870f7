"""Tables of every command fit 100 columns where no terminal reads them, whatever the names are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.plans import QueryState
from holdfast.services.cli import looking, terminal
from holdfast.services.view.lines import CopyLine, JobStatus, UnitLine, UnitProgress

LONG = "a_name_as_long_as_people_write_them_when_every_team_puts_its_own_in_front"
CLI = Path(terminal.__file__).parent
FLAGS = {"receive": True, "process": True, "send": True, "commit": True, "checkpoint_target": True}


def widest(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


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
def test_any_table_fits(table: tuple[list[str], list[list[object]]]) -> None:
    assert widest(piped([terminal.drawn(*table, title=f"{LONG} of {LONG}")])) <= terminal.PIPED_WIDTH


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
    columns = ("unit", "tasks", "scheme", "checkpoints", "epoch", "role", "worker", "state", "batch", "flags")
    tables.append(terminal.drawn(columns, looking._unit_rows([line])))
    text = piped(tables)
    assert widest(text) <= terminal.PIPED_WIDTH
    assert LONG in "".join(line.split("  ")[0].strip() for line in text.splitlines()), "folded, and nothing is cut off"


def test_a_column_that_says_nothing_is_left_out() -> None:
    text = piped([terminal.drawn(("unit", "error", "lost"), [("a-0", "", 0), ("b-0", "", 1)])])
    assert "error" not in text
    assert "lost" in text


@pytest.mark.parametrize("path", sorted(CLI.glob("*.py")), ids=lambda path: path.stem)
def test_commands_draw_tables_in_one_way_alone(path: Path) -> None:
    """`up` in the foreground draws for its terminal only."""
    imported = {n.module for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)}
    assert "rich.table" not in imported or path.stem in ("terminal", "foreground")
