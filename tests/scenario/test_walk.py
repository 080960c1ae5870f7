"""The walk of a record in ARCHITECTURE.md: calls and files from the poll to the sink's transaction.

The walk is what stands on the stack of the loop at each step of a record: taken by its source's feed, cut, read back,
processed, sent as a frame, taken by the next unit, delivered.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from holdfast.services.kernel.dataflow.input_partition import InputPartition
from holdfast.services.kernel.dataflow.unit import Unit
from holdfast.services.log.memory import MemoryAppender, MemoryTransactor
from holdfast.services.worker.process.loop import Worker
from holdfast.services.worker.sources.cutter import Cutter
from holdfast.services.worker.sources.user_topic import SourceFeed
from tests.scenario.test_standby import FAST, everywhere, feed
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import orders

STEPS = {
    SourceFeed: "offer",
    Cutter: "read",
    Unit: "process",
    InputPartition: "offer",
    MemoryAppender: "append",
    MemoryTransactor: "commit",
}
ROOT = Path(__file__).parents[2]


def walk() -> set[tuple[str, str]]:
    """File and name of each function on the way of some records."""
    cluster, found, ended = MemoryCluster(FAST), set[tuple[str, str]](), Worker.turn.__code__
    everywhere(cluster, cluster.start("w1"))
    cluster.turn(50)

    def noted(true: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **named: Any) -> Any:
            if (
                not isinstance(args[0], MemoryAppender)
                or args[1].topic.rpartition(".")[2] == "cuts"
                or ".data." in args[1].topic
            ):
                frame, way = sys._getframe(1), [true.__code__]
                while frame.f_back is not None and frame.f_code is not ended:
                    way.append(frame.f_code)
                    frame = frame.f_back
                if frame.f_code is ended:
                    found.update(
                        (code.co_filename, code.co_name) for code in (*way, ended) if "/services/" in code.co_filename
                    )
            return true(*args, **named)

        return step

    with ExitStack() as patches:
        for kind, name in STEPS.items():
            patches.enter_context(mock.patch.object(kind, name, noted(getattr(kind, name))))
        feed(cluster, orders(50))
        cluster.turn(300)
    return {one for one in found if not one[1].startswith("<")}


def test_the_way_of_a_record_is_as_short_as_the_page_says() -> None:
    found = walk()
    calls, files = len(found), len({file for file, _ in found})
    said = re.search(r"(\d+) calls in\s+(\d+) files", (ROOT / "ARCHITECTURE.md").read_text())
    assert said is not None
    assert (calls, files) == tuple(map(int, said.groups())), sorted(found)
