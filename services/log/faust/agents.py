"""A Faust app whose agents feed records to a core, in the event loop.

Source: PROTOCOL 1: every replica is a consumer group of its own and reads everything from the start, unless its group
learned where to continue (catching_up.py).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping

import faust
from faust.tables.manager import TableManager
from faust.types import StreamT
from mode.utils.times import Seconds

from holdfast.schemas.topics import Partition
from holdfast.services.log.faust.credentials import credentials
from holdfast.services.log.seal.sealed import Gate

Read = Callable[[Partition, int, int, bytes | None], None]
"""Takes (partition, offset, timestamp in ms, value)."""

Passed = Callable[[Partition, int], None]
"""Takes (partition, offset) of a record that does not count."""


class _NoTables(TableManager):
    """Faust gives tables a second to be declared before it reads anything; there are none."""

    async def sleep(self, n: Seconds) -> None:
        pass


class _App(faust.App):
    """Faust makes directories for tables, below the user's; there are none."""

    def _create_directories(self) -> None:
        pass


def make_app(
    name: str,
    bootstrap_servers: str,
    client_settings: Mapping[str, str],
    kinds: Mapping[Partition, str],
    read: Read,
    passed: Passed,
    gate: Gate | None = None,
) -> faust.App:
    """An app with an agent for each topic. kinds: their names. An error in `read` ends the app.

    gate: says which records count; where one does not, `passed` is called instead of `read`.
    """
    app = _App(
        name,
        broker=[f"aiokafka://{server.strip()}" for server in bootstrap_servers.split(",")],
        broker_credentials=credentials(client_settings),
        # It keeps nothing, needs no topics of its own, and nobody calls it.
        store="memory://",
        datadir=os.curdir,  # it is only there; to ask for the directory of temporary files writes one
        topic_disable_leader=True,
        topic_allow_declare=False,
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
        stream_wait_empty=False,
        TableManager=_NoTables,
    )
    for partition, kind in kinds.items():
        _agent(app, partition, kind, read, passed, gate)
    return app


def every(
    app: faust.App,
    seconds: float,
    work: Callable[[], Awaitable[None]],
    rest: Callable[[float, float], float] | None = None,
) -> None:
    """Calls it again and again while the app runs; an error ends the app. What came too late is left out.

    rest: from the interval and the clock of the machine, seconds until the next call; None: the interval, less what the
    call took.

    Faust's own timer makes three tasks for each call, which is most of what a service at rest would do.
    """

    async def repeat() -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not app.should_stop:
            await work()
            due = max(due + seconds, loop.time())
            await asyncio.sleep(due - loop.time() if rest is None else rest(seconds, time.time()))

    app.task(repeat)


def _agent(app: faust.App, partition: Partition, kind: str, read: Read, passed: Passed, gate: Gate | None) -> None:
    topic = app.topic(partition.topic, key_serializer="raw", value_serializer="raw", value_type=bytes)

    async def feed(stream: StreamT[bytes]) -> None:
        async for event in stream.events():
            message = event.message
            try:
                at = Partition(message.topic, message.partition)
                if gate is None or gate.takes(at, message.offset, message.headers, message.key, message.value):
                    read(partition, message.offset, round(message.timestamp * 1000), message.value)
                else:
                    passed(partition, message.offset)
            except Exception as error:
                # An agent would continue with the next record, and the core without this one.
                await app.crash(error)
                raise

    app.agent(topic, name=f"{app.conf.id}-{kind}")(feed)
