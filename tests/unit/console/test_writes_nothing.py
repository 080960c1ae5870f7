"""The console writes nothing by itself: whatever is looked at, it asks Kafka for nothing that changes anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, cast

import pytest

pytest.importorskip("nicegui", reason="the console is an extra: ./scripts/setup installs it")

import httpx

from holdfast.services.console.actions import Actions
from holdfast.services.console.api import ROOT, make_app
from holdfast.services.console.feed import Feed
from holdfast.services.log.protocol import Log
from tests.support.deadlines import HANG_S
from tests.support.shown_cluster import ShownCluster

READS = frozenset({"topics", "describe", "config", "offsets", "scan", "last", "tail", "reader", "close"})
"""Methods of a log that change nothing."""


class Wrote(Exception):
    pass


class Looks:
    """A log that is asked only for what changes nothing; the rest is refused and noted."""

    def __init__(self, log: Log) -> None:
        self._log, self.refused = log, list[str]()

    def __getattr__(self, name: str) -> Any:
        if name in READS:
            return getattr(self._log, name)
        return self._refuse(name)

    def _refuse(self, name: str) -> Callable[..., NoReturn]:
        def refused(*_: object, **__: object) -> NoReturn:
            self.refused.append(name)
            raise Wrote(name)

        return refused


def asked(method: str, app: Any, paths: list[str]) -> list[int]:
    async def ask() -> list[int]:
        way = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=way, base_url="http://console") as client:
            return [(await client.request(method, path)).status_code for path in paths]

    return asyncio.run(ask())


def test_nothing_is_written_for_what_is_looked_at() -> None:
    cluster = ShownCluster()
    cluster.fail()
    log = Looks(cluster.door.log)
    door = replace(cluster.door, log=cast("Log", log))
    feed = Feed(door)
    app = make_app(feed, door, Actions(door, None, [], read_only=False))
    feed.start()
    try:
        assert feed.wait(HANG_S) is not None
        reads = [path for path, of in app.openapi()["paths"].items() if "get" in of]
        given = {
            "{job}": "counted",
            "{query}": "all",
            "{operator}": "counts",
            "{unit}": cluster.unit,
            "{worker}": "worker-1",
        }
        for name, value in given.items():
            reads = [path.replace(name, value) for path in reads]
        assert len(reads) > 8
        assert all(status < 500 for status in asked("GET", app, reads)), "what is asked for is answered"
        assert log.refused == []
        assert asked("POST", app, [f"{ROOT}/jobs/counted/pause"]) == [500], "an action does write"
        assert log.refused == ["appender"]
    finally:
        feed.close()
