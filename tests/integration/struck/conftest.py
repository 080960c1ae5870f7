"""The tests of this folder share one cluster, whose processes they kill and freeze."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.struck import Struck, struck_cluster


@pytest.fixture(scope="package")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Struck]:
    folder = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HOLDFAST_FILES", str(folder / "files"))
        with struck_cluster(folder, recoveries=2) as cluster:
            yield cluster
