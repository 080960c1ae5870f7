"""Error of a file that cannot be fed."""

from __future__ import annotations


class UnusableFile(Exception):
    """A file that holds no records we can read: what is wrong, and what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.message, self.hint = message, hint
        super().__init__(f"{message} ({hint})" if hint else message)
