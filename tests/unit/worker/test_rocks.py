"""The image on disk does what the one in memory does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.kernel.image import MemoryImage
from services.worker.rocks import RocksImage

keys = st.binary(max_size=3)
entries = st.lists(st.tuples(keys, st.none() | st.binary(max_size=5)), max_size=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("images")


@settings(max_examples=50)
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
