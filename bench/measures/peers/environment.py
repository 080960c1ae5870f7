"""Virtual environments of peers, in the cache: made once, with pip, by a package's name and version."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from holdfast.services.node.machine.folders import cache_dir

INSTALL_TIMEOUT_S = 600


class PeerMissing(Exception):
    """Reason why a peer cannot be had."""


def environment_of(requirements: Sequence[str]) -> Path:
    """The Python of an environment that has them, made if need be. Raises PeerMissing."""
    name = re.split(r"[\[=]", requirements[0])[0]
    digest = hashlib.sha256("\n".join([sys.version, *requirements]).encode()).hexdigest()[:12]
    final = cache_dir() / "peers" / f"{name}-{digest}"
    if not (final / "ready").exists():
        _make(final, requirements)
    return final / "bin" / "python"


def _make(final: Path, requirements: Sequence[str]) -> None:
    """Makes an environment in its final place, since it cannot be moved; the file `ready` marks it as complete."""
    python = str(final / "bin" / "python")
    _run([sys.executable, "-m", "venv", "--clear", str(final)])
    _run([python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *requirements])
    (final / "ready").touch()


def _run(command: Sequence[str]) -> None:
    with tempfile.TemporaryFile("w+") as output:
        try:
            done = subprocess.run(command, stdout=output, stderr=output, timeout=INSTALL_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PeerMissing(str(error)) from error
        if done.returncode != 0:
            output.seek(0)
            raise PeerMissing("\n".join(output.read().splitlines()[-3:]))
