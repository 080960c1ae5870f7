"""A commit whose answer never came: made or not, its rows are there once, and the copy continues from where it is."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from holdfast.services.kernel.errors import Indefinite, Retriable
from holdfast.services.log.memory import MemoryTransactor
from holdfast.services.log.protocol import Rows
from holdfast.services.worker.checkpoint.restore import Rebuilt, rebuild
from holdfast.services.worker.unit.facts import beside
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB, check, orders


@pytest.mark.parametrize("fault", ["not made", "made, and not answered", "aborted"])
def test_rows_are_there_once_and_nothing_is_rebuilt(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    commits, rebuilds, made = itertools.count(1), list[object](), MemoryTransactor.commit

    def commit(self: MemoryTransactor, rows: list[Rows]) -> None:
        struck = next(commits) % 3 == 0
        if not struck or fault.startswith("made"):
            made(self, rows)
        if struck:
            raise (Retriable if fault == "aborted" else Indefinite)(fault)

    monkeypatch.setattr(MemoryTransactor, "commit", commit)

    def counted(*some: Any) -> Rebuilt:
        rebuilds.append(some)
        return rebuild(*some)

    monkeypatch.setattr(beside, "rebuild", counted)
    cluster, fed = MemoryCluster(JOB), orders(600)
    worker = cluster.start("one")
    cluster.place({unit: [worker] for unit in cluster.units})
    for number, order in enumerate(fed):
        cluster.feed("orders", [order], number % 2)
        if number % 20 == 0:
            cluster.turn(15)
    restored = len(cluster.units)
    cluster.run_to_end()
    check(cluster.rows, fed)
    assert next(commits) > 10
    assert len(rebuilds) == restored
