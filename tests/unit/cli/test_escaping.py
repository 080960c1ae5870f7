"""A record cannot speak to the terminal: every command shows control characters of records as escapes."""

from __future__ import annotations

import ast
import io
import json
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.dead_letters import of_record
from holdfast.schemas.events import Event
from holdfast.services.cli import dead_letters, events, terminal, trial
from holdfast.services.kernel.visible import visible, visible_json, visible_line

CLI = Path(__file__).parents[3] / "services/cli"
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HARMFUL = [chr(code) for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"] + list(BIDI)
NASTY = "a" + "".join(HARMFUL) + "\x1b[2J\x1b]0;title\x07 \u2028z"
LETTER = of_record(NASTY, NASTY, 1, "t", 0, 3, NASTY.encode())


def harmful(shown: str) -> set[str]:
    return {one for one in shown if one not in "\t\n" and (unicodedata.category(one) == "Cc" or one in BIDI)}


class Terminal(io.TextIOWrapper):
    """A standard stream that keeps what it is given."""

    def __init__(self, tty: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="surrogatepass", write_through=True)
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty

    def shown(self) -> str:
        self.flush()
        found: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return found.decode("utf-8", "surrogatepass")


PRINTERS: dict[str, Callable[[], None]] = {
    "say": lambda: terminal.say(NASTY),
    "note": lambda: terminal.note(NASTY),
    "say_error": lambda: terminal.say_error(NASTY, NASTY),
    "print_json": lambda: terminal.print_json({NASTY: [NASTY]}),
    "print_raw": lambda: terminal.print_raw(NASTY.encode()),
    "print_rows": lambda: terminal.print_rows([msgspec.json.encode(NASTY)] * 2),
    "print_plain": lambda: terminal.print_plain(NASTY, stderr=True),
    "print_table": lambda: terminal.print_table(
        (NASTY, "b"), [(NASTY, 1), (terminal.coloured(NASTY), None)], title=NASTY
    ),
    "waiting": lambda: _wait(),
    "event": lambda: terminal.say(events._event_line(_event())),
    "dead letter": lambda: terminal.say(
        dead_letters._letter_line(of_record(NASTY, NASTY, 1, "t", 0, 3, NASTY.encode()))
    ),
    "try": lambda: trial._print(_summary(), False, [NASTY]),
    "refusal": lambda: _refuse(),
    "rows": lambda: trial._deliver({"q": [msgspec.json.encode(NASTY)], "r": [msgspec.json.encode([NASTY])]}, "-"),
}
"""What commands print with; each is given what a hostile record holds."""


def _wait() -> None:
    with terminal.waiting(NASTY, quiet=False) as report:
        report(NASTY)


def _event() -> Event:
    return Event(time_ms=1, kind="seen", job=NASTY, unit=NASTY, worker=NASTY, detail=NASTY)


def _summary() -> dict[str, object]:
    return {"records": 1, "rows": {"q": 0}, "late_by_stream": {}}


def _refuse() -> None:
    import typer

    with pytest.raises(typer.Exit):
        trial._refuse([NASTY], 1)


@pytest.mark.parametrize("name", PRINTERS)
def test_no_control_character_reaches_a_file_or_a_pipe(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Terminal(tty=False), Terminal(tty=False)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    PRINTERS[name]()
    shown = out.shown() + err.shown()
    assert "z" in shown, "the text is shown"
    assert not harmful(shown)


@pytest.mark.parametrize("name", PRINTERS)
def test_a_terminal_gets_no_sequence_of_a_record(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours are of the command; the record's own sequences, its title and its bidirectional controls are shown."""
    out, err = Terminal(tty=True), Terminal(tty=True)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    PRINTERS[name]()
    shown = out.shown() + err.shown()
    assert "\x1b]0;" not in shown
    assert "\x07" not in shown
    assert not harmful(shown) - {"\x1b", "\r"}


@given(st.text(st.characters(codec=None)))
def test_visible_text_holds_none_and_keeps_the_rest(text: str) -> None:
    assert not harmful(visible(text))
    assert not harmful(visible_line(text))
    assert "\n" not in visible_line(text)
    assert "\t" not in visible_line(text)
    assert visible(visible(text)) == visible(text)
    visible(text).encode()
    if text.isprintable():
        assert visible(text) == text


@given(st.lists(st.text()) | st.dictionaries(st.text(), st.text()))
def test_json_means_the_same(value: object) -> None:
    line = msgspec.json.encode(value)
    shown = visible_json(line)
    assert json.loads(shown) == value
    assert not harmful(shown.decode())


@given(st.binary())
def test_any_bytes_are_one_line_without_control_characters(line: bytes) -> None:
    shown = visible_json(line).decode()
    assert not harmful(shown)
    assert "\n" not in shown


def test_commands_print_through_the_terminal_module_alone() -> None:
    """A print elsewhere would show a record as it is."""
    found = []
    for path in sorted(CLI.glob("*.py")):
        if path.name in ("terminal.py", "safe_console.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _prints(ast.unparse(node.func)):
                found.append(f"{path.name}:{node.lineno} {ast.unparse(node)[:60]}")
    assert found == [], "print with services/cli/terminal.py, which escapes what records hold"


def _prints(called: str) -> bool:
    if called in ("print", "typer.echo", "typer.secho", "click.echo", "Console", "rich.print"):
        return True
    return called.startswith(("sys.stdout.", "sys.stderr.")) and called.endswith(("write", "writelines"))
