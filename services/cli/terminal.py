"""Terminal: how commands speak: tables and colours for people, JSON for scripts, errors on stderr.

Whatever a command prints goes through here, because control characters of records are escaped here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.services.kernel.visible import visible, visible_json, visible_line

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """A console with colours only on a terminal; elsewhere lines keep their full length."""
    from holdfast.services.cli.safe_console import SafeConsole

    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return SafeConsole(stderr=stderr, highlight=False, soft_wrap=not terminal, width=None if terminal else 200)


def say(text: str) -> None:
    console().print(text, markup=False)


def note(text: str) -> None:
    """Prints a message to stderr for a person who waits; output is never mixed with it."""
    console(stderr=True).print(text, style="dim", markup=False)


def say_error(message: str, hint: str = "") -> None:
    err = console(stderr=True)
    err.print("error:", style="bold red", end=" ")
    err.print(f"{message} ({hint})" if hint else message, markup=False)


def print_json(data: Any) -> None:
    """Prints one line, so that several calls print JSON lines."""
    import msgspec

    print_raw(msgspec.json.encode(data))


def print_raw(line: bytes) -> None:
    """A line of JSON."""
    sys.stdout.buffer.write(visible_json(line) + b"\n")
    sys.stdout.buffer.flush()


def print_rows(rows: Iterable[bytes]) -> None:
    """Many lines of JSON at once."""
    sys.stdout.buffer.write(b"".join(visible_json(row) + b"\n" for row in rows))
    sys.stdout.buffer.flush()


def progress(text: str) -> None:
    """Overwrites the line of the cursor on stderr."""
    sys.stderr.write(f"\r{visible_line(text)}")


def print_plain(text: str, *, stderr: bool = False) -> None:
    """A text as it is, without colours, for scripts and for lines that must not be wrapped."""
    stream = sys.stderr if stderr else sys.stdout
    stream.write(f"{visible(text)}\n")
    stream.flush()


PIPED_WIDTH = 100
"""Columns that a table has where no terminal reads it. Cells are broken into more lines between words; a word that is
wider than all these columns stays whole, in a line of its own."""


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "", empty: str = "") -> None:
    """A table, or the line `empty` if it has no rows; where no terminal reads it, of at most PIPED_WIDTH columns."""
    filled = list(rows)
    if not filled and empty:
        say(empty)
        return
    show([drawn(columns, filled, title=title)])


def drawn(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> Any:
    """The table, to be shown."""
    from holdfast.services.cli.tables import Fitted

    return Fitted(columns, rows, title=title)


def show(parts: Iterable[Any]) -> None:
    """Prints tables, and other lines unchanged."""
    to = console()
    for part in parts:
        if isinstance(part, str):
            to.print(part, markup=False)
        elif to.is_terminal or not hasattr(part, "columns"):
            to.print(part, crop=False)
        else:
            to.print(part, width=PIPED_WIDTH, soft_wrap=False, crop=False)


@contextmanager
def live() -> Iterator[Callable[[Sequence[Any]], None]]:
    """A picture that stays on the screen; gives a function that draws it again from the parts that `show` prints."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with Live(console=console(), auto_refresh=False, vertical_overflow="visible") as picture:
        yield lambda parts: picture.update(
            Group(*(Text(visible(part)) if isinstance(part, str) else part for part in parts)), refresh=True
        )


_STYLES = {
    "green": ("running", "live", "ok", "ended", "available"),
    "yellow": (
        "starting",
        "accepted",
        "pausing",
        "paused",
        "draining",
        "cancelling",
        "silent",
        "warn",
        "waiting",
        "restoring",
        "catching up",
        "tentative",
    ),
    "red": ("failed", "stopped", "rejected", "exited", "fail", "down", "stuck", "quarantined"),
}


def coloured(state: str) -> Any:
    """A state in its colour."""
    from rich.text import Text

    return Text(state, style=next((colour for colour, states in _STYLES.items() if state in states), ""))


@contextmanager
def waiting(what: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A spinner while a command waits, on a terminal. Gives a function that shows progress; elsewhere as lines."""
    if quiet:
        yield lambda how_far: None
    elif not sys.stderr.isatty():
        yield note
    else:
        with console(stderr=True).status(what) as spinner:
            yield lambda how_far: spinner.update(f"{what} {how_far}")
