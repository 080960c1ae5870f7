"""Heartbeats reach the event loop of a Faust app through a reader of their own.

There are dozens a second, for ever: an agent takes 0.7 ms of CPU for each in two threads, this a tenth of it
(docs/decisions/0107).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence

import faust

from schemas.topics import Partition
from services.kernel.errors import Retriable
from services.log.aged import poll_aged
from services.log.agents import Read
from services.log.protocol import Log, Message, Reader

WAIT_S = 0.25
"""How long the thread waits for records, and how soon it sees that the app stops."""


def listen(app: faust.App, log: Log, name: str, begins: Mapping[Partition, int], read: Read) -> None:
    """Lets the app read partitions whose records are deleted by age, while it runs. An error in `read` ends the app.

    Args:
        name: of the reader. begins: where reading begins, by partition. read: called in the event loop.
    """
    app.task(Listener(app, log, name, begins, read).run)


class Listener:
    """A thread waits for records, and for the event loop to take them before it reads on."""

    def __init__(self, app: faust.App, log: Log, name: str, begins: Mapping[Partition, int], read: Read) -> None:
        self._app, self._log, self._name, self._read = app, log, name, read
        self._next = dict(begins)
        self._over = threading.Event()
        self._taken = threading.Event()

    async def run(self) -> None:
        """Until the app stops, and cancels it."""
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        threading.Thread(target=self._follow, args=(loop, ended), name=f"listen-{self._name}", daemon=True).start()
        try:
            await ended
        finally:
            self._over.set()

    def _follow(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
        try:
            reader = self._log.reader(self._name)
            try:
                reader.assign(self._next)
                while not self._over.is_set():
                    self._turn(reader, loop, ended)
            finally:
                reader.close()
        except Exception as error:
            if not self._over.is_set():
                loop.call_soon_threadsafe(_fail, ended, error)

    def _turn(self, reader: Reader, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
        try:
            chunks = poll_aged(reader, self._log, list(self._next), WAIT_S)
        except Retriable:
            self._over.wait(WAIT_S)
            reader.assign(self._next)
            return
        for chunk in chunks:
            if chunk.messages:
                self._taken.clear()
                loop.call_soon_threadsafe(self._take, chunk.partition, chunk.messages, ended)
                while not self._taken.wait(WAIT_S) and not self._over.is_set():
                    continue

    def _take(self, partition: Partition, messages: Sequence[Message], ended: asyncio.Future[None]) -> None:
        try:
            for message in messages:
                self._read(partition, message.offset(), message.timestamp()[1], message.value())
            self._next[partition] = messages[-1].offset() + 1
        except Exception as error:
            _fail(ended, error)
        finally:
            self._taken.set()


def _fail(ended: asyncio.Future[None], error: Exception) -> None:
    if not ended.done():
        ended.set_exception(error)
