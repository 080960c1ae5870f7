"""Folders in which this process may write files of jobs. A job file may name any folder; the owner of the worker allows
some."""

from __future__ import annotations

from pathlib import Path

from holdfast.services.kernel.errors import NoFolder

VARIABLE = "HOLDFAST_FILES"
_allowed: list[Path] = []


def allow(folders: str) -> None:
    """Replaces the allowed folders by these paths, which are separated by colons. Folders below them are allowed as
    well."""
    _allowed[:] = [Path(one).resolve() for one in folders.split(":") if one]


def checked(path: str) -> Path:
    """The folder, with links resolved. Raises NoFolder if jobs may not write there."""
    folder = Path(path).resolve()
    if any(folder.is_relative_to(one) for one in _allowed):
        return folder
    may = f"{VARIABLE} names {', '.join(map(str, _allowed))}" if _allowed else f"{VARIABLE} names none"
    raise NoFolder(f"jobs may not write to {path} here: {may}; start the workers with {VARIABLE}={path}")
