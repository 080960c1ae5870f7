"""Options that set which state, by operator, and which positions, by source, a job takes over from another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.kernel.errors import USAGE, CommandFailed

if TYPE_CHECKING:
    from holdfast.schemas.savepoints import Start

DropState = Annotated[
    list[str] | None, typer.Option("--drop-state", metavar="OPERATOR", help="Leave its state behind (repeatable).")
]
Reread = Annotated[
    list[str] | None,
    typer.Option("--reread", metavar="SOURCE", help="Begin it where the job file says, not where it was (repeatable)."),
]
Renamed = Annotated[
    list[str] | None,
    typer.Option("--renamed", metavar="NEW=OLD", help="The operator or source had another name (repeatable)."),
]


def carrying(drop_state: list[str] | None, reread: list[str] | None, renamed: list[str] | None) -> Start:
    """Start as the options describe it. Raises CommandFailed."""
    from holdfast.schemas.savepoints import Start

    names: dict[str, str] = {}
    for text in renamed or ():
        now, _, was = text.partition("=")
        if not now or not was or now in names:
            message = f"--renamed {text}: {f'{now} is named twice' if now in names else 'is not NEW=OLD'}"
            raise CommandFailed(message, "such as --renamed sums=totals", USAGE)
        names[now] = was
    return Start("", "", tuple(drop_state or ()), tuple(reread or ()), renamed=names)
