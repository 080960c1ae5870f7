"""The identity of a new node of the embedded Kafka, and its feature levels, in its data directory.

Kafka's own tool starts a JVM for that, which takes as long as the broker's start. The feature levels depend on the jars
alone, so what the tool has written once is kept beside the jars; the identity is four lines.
"""

from __future__ import annotations

import base64
import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

from holdfast.services.node.machine.disk import put

LEVELS, IDENTITY = "bootstrap.checkpoint", "meta.properties"


def new_id() -> str:
    """16 random bytes as Kafka writes them; one that starts with "-" would be taken for an option."""
    while (found := base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return found


def write(data: Path, node: int, cluster: str, jars: Path) -> bool:
    """Formats the data directory of a node from the copy kept beside the jars; False if there is no copy."""
    kept = jars / LEVELS
    if not kept.exists():
        return False
    data.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(kept, data / LEVELS)
    put(data / IDENTITY, f"node.id={node}\ndirectory.id={new_id()}\nversion=1\ncluster.id={cluster}\n")
    return True


def keep(data: Path, jars: Path) -> None:
    """Copies the tool's output to the cache; a cache that cannot be written stays unchanged."""
    beside = jars / f".{LEVELS}-{os.getpid()}"
    with suppress(OSError):
        shutil.copyfile(data / LEVELS, beside)
        beside.rename(jars / LEVELS)
