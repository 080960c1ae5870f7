"""Heartbeats reach the event loop of a Faust app through a reader of their own.

Dozens of heartbeats arrive every second: an agent takes 0.7 ms of CPU for each in two threads, this reader a tenth of
it (docs/decisions/0107).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import faust

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.faust.agents import Read
from holdfast.services.log.late.aged import poll_aged
from holdfast.services.log.protocol import Log

WAIT_S = 0.25
"""Longest wait of the thread, in seconds, for records; the thread notices after it that the app stops."""


def listen(
    app: faust.App, log: Log, name: str, begins: Mapping[Partition, int], read: Read, *, patient: bool = False
) -> None:
    """Lets the app read partitions whose records are deleted by age, while it runs. An error in `read` ends the app.

    Args:
        name: name of the reader.
        begins: offset at which reading begins, by partition.
        read: called in the event loop for each record.
        patient: see Log.reader.
    """

    async def task() -> None:
        await follow(log, name, begins, read, patient=patient)

    app.task(task)


async def follow(log: Log, name: str, begins: Mapping[Partition, int], read: Read, *, patient: bool = False) -> None:
    """Reads until it is cancelled. A thread waits for records; it waits again once the event loop has read them."""
    thread = ThreadPoolExecutor(1, thread_name_prefix=f"listen-{name}")
    beside = partial(asyncio.get_running_loop().run_in_executor, thread)
    reader, nexts = log.reader(name, patient=patient), dict(begins)
    try:
        await beside(reader.assign, nexts)
        while True:
            try:
                chunks = await beside(poll_aged, reader, log, list(nexts), WAIT_S)
            except Retriable:
                await asyncio.sleep(WAIT_S)
                await beside(reader.assign, nexts)
                continue
            for chunk in chunks:
                for message in chunk.messages:
                    read(chunk.partition, message.offset(), message.timestamp()[1], message.value())
                    nexts[chunk.partition] = message.offset() + 1
    finally:
        thread.submit(reader.close)
        thread.shutdown(wait=False)
