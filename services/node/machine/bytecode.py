"""Compiled modules of the processes that are started here: they are kept, also where the environment forbids it.

Many images set PYTHONDONTWRITEBYTECODE. Without compiled modules each start of a worker takes four seconds of a core.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from holdfast.services.node.machine.folders import cache_dir

FORBIDDEN, PREFIX = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"
OURS = ("holdfast.services", "holdfast.schemas", "holdfast")
LIBRARIES = ("polars", "pyarrow", "pydantic", "confluent_kafka")
MTIME_AT, SIZE_AT, HEAD = 8, 12, 16
"""Layout of a compiled module: time of change and size of its source, both in 4 bytes, and the begin of its code."""


def of_children(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a child: if this process may not write compiled modules, and some are missing, the child keeps
    its own in the cache, and writes nothing beside the sources.
    """
    given = dict(environment)
    if not given.get(FORBIDDEN) or given.get(PREFIX) or _all_compiled():
        return given
    del given[FORBIDDEN]
    return given | {PREFIX: str(cache_dir() / "modules")}


@cache
def _all_compiled() -> bool:
    """True if all modules of the product, and the first module of a few libraries, are compiled
    in their present state.
    """
    return all(map(is_compiled, _sources()))


def is_compiled(source: Path) -> bool:
    """True if a compiled module of the present source is beside it."""
    try:
        with open(cache_from_source(str(source)), "rb") as file:
            head = file.read(HEAD)
        known = source.stat()
    except OSError:
        return False
    if len(head) < HEAD:
        return False
    if int.from_bytes(head[4:MTIME_AT], "little"):
        return True  # named by the hash of its source, or not to be checked: the interpreter takes care
    mtime, size = head[MTIME_AT:SIZE_AT], head[SIZE_AT:HEAD]
    return mtime == (int(known.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little") and size == (
        known.st_size & 0xFFFFFFFF
    ).to_bytes(4, "little")


def _sources() -> Iterator[Path]:
    for name in LIBRARIES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            yield Path(spec.origin)
    for name in OURS:
        for folder in sys.modules[name].__path__ if name in sys.modules else ():
            yield from Path(folder).rglob("*.py")
