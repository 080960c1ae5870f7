"""A Faust app whose agents feed records to a core, in the event loop.

Source: PROTOCOL 1: every replica is a consumer group of its own and reads everything from the start, unless its group
    has positions at which to continue (catching_up.py).
"""

from __future__ import annotations

import asyncio
import os
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
    """Faust waits a second for declarations of tables before it reads; this app has no tables and does not wait."""

    async def sleep(self, n: Seconds) -> None:
        pass


class App(faust.App):
    """Faust makes directories for tables in the user's directory; this app has no tables and makes none."""

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
) -> App:
    """An app with an agent for each topic. An error in `read` ends the app.

    kinds: names of the agents, by partition.
    gate: decides which records count; for a refused record `passed` is called instead of `read`.
    """
    app = App(
        name,
        broker=[f"aiokafka://{server.strip()}" for server in bootstrap_servers.split(",")],
        broker_credentials=credentials(client_settings),
        # The app keeps no state, needs no topics of its own, and serves no requests.
        store="memory://",
        datadir=os.curdir,  # any existing directory; asking for the one of temporary files writes a file
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


def every(app: faust.App, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Calls `work` repeatedly while the app runs; an error ends the app. Calls that are overdue are skipped.

    Faust's own timer makes three tasks for each call, which is most of the work of an idle service.
    """

    async def repeat() -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not app.should_stop:
            await work()
            due = max(due + seconds, loop.time())
            await asyncio.sleep(due - loop.time())

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
