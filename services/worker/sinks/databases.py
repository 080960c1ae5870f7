"""Databases that this process may write: a job file names one, the owner of the worker gives its URL.

The file of `HOLDFAST_DATABASES` is read at each connection, so a new password needs no restart.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from holdfast.services.kernel.errors import SinkUnready

VARIABLE = "HOLDFAST_DATABASES"
_named: list[Path] = []


def use(file: str) -> None:
    """Names the file with the databases; an empty path means that there are none."""
    _named[:] = [Path(file).resolve()] if file else []


def url_of(database: str) -> str:
    """URL of a database, which may hold a password. Raises SinkUnready: none is named here."""
    line = f'{database} = "postgresql://user:password@host/name"'
    if not _named:
        raise SinkUnready(f"{VARIABLE} names no file here: start the workers with that of one which has a line {line}")
    (file,) = _named
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SinkUnready(f"{file}, which {VARIABLE} names, cannot be read: {error}") from error
    url = found.get(database)
    if not isinstance(url, str):
        has = f"it has {', '.join(sorted(found))}" if found else "it is empty"
        raise SinkUnready(f"{file}, which {VARIABLE} names, has no line for it: {has}; add a line {line}")
    return url
