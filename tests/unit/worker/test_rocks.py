"""The image on disk does what the one in memory does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.errors import WorkerUnfit
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.worker.process.rocks import LOG_BYTES, MIB, RocksImage, RocksMemory
from tests.support.examples import examples

keys = st.binary(max_size=3)
entries = st.lists(st.tuples(keys, st.none() | st.binary(max_size=5)), max_size=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("images")


@examples(each_run=50, with_long=250)
@given(some=st.lists(entries, max_size=5), prefix=keys, start=keys, size=st.integers(0, 30))
def test_rocks_and_memory_agree(
    folder: Path, some: list[list[tuple[bytes, bytes | None]]], prefix: bytes, start: bytes, size: int
) -> None:
    rocks, memory = RocksImage(folder / "image"), MemoryImage()
    for batch in some:
        rocks.apply(batch)
        memory.apply(batch)
    wanted = [key for batch in some for key, _ in batch] + [b"absent"]
    assert rocks.get_many(wanted) == memory.get_many(wanted)
    assert list(rocks.scan(prefix)) == list(memory.scan(prefix))
    assert rocks.slice(start, size) == memory.slice(start, size)
    rocks.close()
    assert not (folder / "image").exists()


def test_a_state_directory_that_cannot_be_written_is_the_worker_s_trouble(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(WorkerUnfit, match=r"state directory cannot be used: .*file.*HOLDFAST_STATE_DIR"):
        RocksImage(folder / "file" / "image")


def fill(image: RocksImage, mib: int) -> None:
    for number in range(mib):
        image.apply([(b"%d-%d" % (number, index), os.urandom(1000)) for index in range(1000)])


def test_images_share_the_memory_that_a_worker_has_for_them(tmp_path: Path) -> None:
    memory = RocksMemory(cache_bytes=2 * MIB, buffer_bytes=4 * MIB)
    images = [RocksImage(tmp_path / str(number), memory) for number in range(3)]
    for image in images:
        fill(image, 8)
        assert memory.buffers.get_usage() <= 2 * memory.buffer_bytes, "what is being written to disk still counts"
    for image in images:
        assert len(list(image.scan(b""))) == 8_000
    assert memory.cache.get_usage() <= 3 * MIB
    for image in images:
        image.close()


@pytest.mark.slow
def test_the_log_of_rocksdb_is_bounded(tmp_path: Path) -> None:
    image = RocksImage(tmp_path / "image", RocksMemory(MIB, MIB))
    fill(image, 150)
    logged = {path.name: path.stat().st_size for path in (tmp_path / "image").glob("LOG*")}
    assert len(logged) <= 2
    assert sum(logged.values()) <= 2 * LOG_BYTES
    image.close()


FULL = """
import resource, sys
from pathlib import Path
from holdfast.services.kernel.errors import WorkerUnfit
from holdfast.services.worker.process.rocks import RocksImage

image = RocksImage(Path(sys.argv[1]) / "full")
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    for number in range(1000):
        image.apply([(b"%d-%d" % (number, index), b"x" * 1000) for index in range(1000)])
except WorkerUnfit as error:
    print(error)
"""


def test_a_disk_that_is_full_is_told_at_the_next_write(folder: Path) -> None:
    """In a process of its own, for a limit of the size of files stands for the full disk."""
    done = subprocess.run([sys.executable, "-c", FULL, str(folder)], capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert "nothing is lost" in done.stdout
