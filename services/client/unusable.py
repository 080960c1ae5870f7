"""Error of a file that cannot be fed."""

from __future__ import annotations

from holdfast.services.kernel.errors import USAGE, CommandFailed


class UnusableFile(CommandFailed):
    """A file without readable records; the message names the cause and the fix."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint, USAGE)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message
