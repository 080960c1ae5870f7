"""The cause of a query's end, in words for a user.

Source: PROTOCOL 12: Spark's reason, shortened to the part that a user can act on.
"""

from __future__ import annotations

import re

MAX_CAUSE = 500
_OF_PYTHON = re.compile(r"^\s*(?:[\w.]+\.)?(\w+(?:Error|Exception|Failed|Fenced|Retriable)): (.+)$", re.MULTILINE)


def cause_of(error: BaseException) -> str:
    """The innermost Python error quoted in a Spark error; otherwise the first line of the error."""
    text = str(error)
    found = _OF_PYTHON.findall(text)
    # An error that only passes another on is not the cause, and its text says it.
    quoted = [message if kind == "BatchFailed" else f"{kind}: {message}" for kind, message in found]
    if quoted:
        return quoted[-1][:MAX_CAUSE]
    return f"{type(error).__name__}: {(text.strip().splitlines() or [''])[0]}"[:MAX_CAUSE]
