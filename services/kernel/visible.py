"""Visible text: the content of records, escaped so that it cannot control a terminal.

A record may hold ESC, which moves the cursor or changes the title, and bidirectional controls, which show one text and
copy another. Every command prints through these functions.
"""

from __future__ import annotations

import re

_HARMFUL = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
"""DEL and the second set of control characters, bidirectional controls, line separators, halves of a surrogate pair."""
_IN_TEXT = re.compile(f"[\x00-\x08\x0b-\x1f{_HARMFUL}]")
_IN_LINE = re.compile(f"[\x00-\x1f{_HARMFUL}]")


def visible(text: str) -> str:
    """The text with control characters as escapes, such as `\\x1b`; tabs and ends of lines stay."""
    return _IN_TEXT.sub(_escape, text)


def visible_line(text: str) -> str:
    """The text as one line: control characters, tabs and ends of lines as escapes."""
    return _IN_LINE.sub(_escape, text)


def visible_json(line: bytes) -> bytes:
    """An equivalent line of JSON: control characters in its texts are `\\u` escapes, between its parts spaces."""
    text = line.decode(errors="replace")
    return line if _IN_LINE.search(text) is None and "\ufffd" not in text else _IN_LINE.sub(_json_escape, text).encode()


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    short = {9: "\\t", 10: "\\n", 13: "\\r"}.get(code)
    return short or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def _json_escape(match: re.Match[str]) -> str:
    return " " if match[0] in "\t\n\r" else f"\\u{ord(match[0]):04x}"
