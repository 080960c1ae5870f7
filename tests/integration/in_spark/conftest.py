"""The tests of this folder share one Spark session: a JVM that has run one query runs others sooner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.services.spark.local.session import local_session
from tests.support.spark_session import end_jvm


@pytest.fixture(scope="package", autouse=True)
def _session() -> Iterator[None]:
    """Ends it behind the last of them; the first that needs it opens it."""
    yield
    if local_session.cache_info().currsize:
        local_session().stop()
        local_session.cache_clear()
        end_jvm()
