"""Spark's session is there for queries as soon as it is open, and its Python starts beside them."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.services.spark import spark_engine
from holdfast.services.spark.spark_engine import Session


def test_python_starts_once_the_session_is_open_and_a_query_does_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=None))
    started, go, over = list[object](), threading.Event(), threading.Event()

    def start_python(session: object) -> None:
        go.wait(60)
        started.append(session)
        over.set()
        raise RuntimeError("no Python")

    monkeypatch.setattr(spark_engine, "start_python", start_python)
    open_session: Any = lambda: opened  # noqa: E731
    session = Session(open_session)
    assert session.wait() is opened
    assert not started
    go.set()
    assert over.wait(60)
    assert started == [opened]
    assert session.fault() == "", "a query says what is wrong with Python"
