"""Errors of users' code as texts for people: the error, and the lines of the code that raised it.

The text is equal on every copy: without memory addresses and without folders. Source: JOBS "Errors of rows".
"""

from __future__ import annotations

import re
import traceback
from itertools import dropwhile
from pathlib import Path

MAX_REASON = 1000
MAX_LINES, MAX_WHERE = 5, 500
"""The limits of the traceback in a reason: calls, and characters."""
_OURS = str(Path(__file__).parents[2])
_LIBRARIES = re.compile(r"site-packages|[/\\]lib[/\\]python3|^<")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def text_of(error: Exception) -> str:
    """The text of an error, equal on every copy: without memory addresses and folders; it ends with the lines of the
    code.
    """
    said = _ADDRESS.sub("", f"{type(error).__name__}: {error}")
    where = _lines_of(error)
    return f"{said[: MAX_REASON - len(where)]}{where}"


def _lines_of(error: Exception) -> str:
    """The lines of the user's code, innermost call last, without calls of holdfast and of libraries; recursion is
    cut.
    """
    called = list(dropwhile(_is_ours, traceback.extract_tb(error.__traceback__)))
    own = [one for one in called if not _is_ours(one) and not _LIBRARIES.search(one.filename)]
    shown = [f"{Path(one.filename).name}, line {one.lineno}, in {one.name}" for one in (own or called)[-MAX_LINES:]]
    return f" ({'; '.join(shown)})"[:MAX_WHERE] if shown else ""


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(_OURS)
