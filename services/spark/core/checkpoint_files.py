"""The files of a query's checkpoint: which ones belong to the checkpoint as of a micro-batch, and which ones it lacks.

Source: PROTOCOL 12. Paths are those of Spark, below the directory of the checkpoint: `offsets/<batch>`,
`commits/<batch>`, and `state/<operator>/<partition>[/<store>]/<version>.<kind>`. The state after micro-batch b, by
Spark's count, is version b + 1. The changelog or delta of a version is written by the tasks of its micro-batch, the
snapshot of a version some time later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_VERSION = re.compile(r"(?P<store>state/.+)/(?P<version>\d+)(_[^./]+)?\.(changelog|delta|zip|snapshot)")
_NOTE = re.compile(r"(?P<folder>offsets|commits)/(?P<batch>\d+)")
_OPERATOR = re.compile(r"state/[^/]+")


def hidden(path: str) -> bool:
    """True for a file that Spark is still writing, and for the checksum beside a file: neither is needed."""
    return path.rpartition("/")[2].startswith(".") or "/." in path


def kept(path: str, planned: int, done: int) -> bool:
    """True if the file belongs to the checkpoint as of micro-batch `planned`; `done` is the last one that is done.

    Offsets, completions and versions of state of later micro-batches do not belong to it: those micro-batches take
    other records when they run again.
    """
    if (note := _NOTE.fullmatch(path)) is not None:
        return int(note["batch"]) <= (planned if note["folder"] == "offsets" else done)
    found = _VERSION.fullmatch(path)
    return found is None or int(found["version"]) <= planned + 1


def lacking(paths: Iterable[str], batch: int) -> list[str]:
    """Folders of state without the version that micro-batch `batch` has written; an operator without any such folder
    is named by its own."""
    stores: dict[str, bool] = {}
    operators: set[str] = set()
    for path in paths:
        if (operator := _OPERATOR.match(path)) is None:
            continue
        operators.add(operator[0])
        if (found := _VERSION.fullmatch(path)) is not None:
            stores[found["store"]] = stores.get(found["store"], False) or int(found["version"]) == batch + 1
    without = {one for one in operators if not any(f"{store}/".startswith(f"{one}/") for store in stores)}
    return sorted(without | {store for store, whole in stores.items() if not whole})
