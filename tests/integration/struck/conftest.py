"""The tests of this folder share one cluster, whose processes they kill and freeze, and which has a secret."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.services.log.seal.secret import SECRET, SECRET_FILE
from tests.support.struck import Struck, struck_cluster


@pytest.fixture(scope="package")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Struck]:
    folder, secret = tmp_path_factory.mktemp("cluster"), tmp_path_factory.mktemp("secret") / "cluster.secret"
    secret.write_text("a secret that only this cluster knows\n")
    secret.chmod(0o600)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HOLDFAST_FILES", str(folder / "files"))
        patched.delenv(SECRET, raising=False)
        patched.setenv(SECRET_FILE, str(secret))
        named = folder / "databases.toml"
        named.write_text(f'shop = "sqlite:///{folder}/rows.db"\n')
        patched.setenv("HOLDFAST_DATABASES", str(named))
        with struck_cluster(folder, recoveries=2) as cluster:
            yield cluster
