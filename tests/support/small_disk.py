"""A real file system of a few megabytes, which a test fills and frees."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PIECES = (1 << 20, 4096)


class SmallDisk:
    """Mounted at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """To the last block."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in PIECES:
                with suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Unmounted at the end, however that comes. Skips the test where nothing may be mounted."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no `mount` here")
    if done.returncode != 0:
        pytest.skip(f"no small file system can be mounted: {done.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
