"""The channel between a worker and a process that runs users' code: a socket carries sizes, shared memory the content.

Each side writes into memory of its own. The sides take turns, so the content stays until the other side answers.
Content is copied when it is read, because rows and values outlive the message. Source: docs/decisions/0071.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.services.kernel.plurals import plural

HEADER = struct.Struct("<8sQQ")
MAGIC = b"holdfast"
FIRST_BYTES = 1024 * 1024
MOST_BYTES = 1024 * 1024 * 1024
"""Largest message. A batch has at most `max_batch_bytes` as records of Kafka."""


class PeerEnded(Exception):
    """The other process has ended or closed its side."""


class Garbage(Exception):
    """Received bytes that are not a message."""


class MessageTooLarge(ValueError):
    """A message of more than MOST_BYTES."""


class Region:
    """Memory in an unnamed file, which grows with the largest message and never shrinks."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._size = 0
        self._map: mmap.mmap | None = None

    def write(self, parts: Sequence[Any]) -> None:
        """Writes bytes-like parts one behind the other. Raises MessageTooLarge."""
        size = sum(map(len, parts))
        if size > MOST_BYTES:
            raise MessageTooLarge(f"a message of {size >> 20} MiB, more than {MOST_BYTES >> 20}")
        if size > self._size or self._map is None:
            new = max(FIRST_BYTES, 1 << (size - 1).bit_length())
            os.ftruncate(self._file, new)
            self._open(new, mmap.PROT_READ | mmap.PROT_WRITE)
        assert self._map is not None
        begin = 0
        for part in parts:
            self._map[begin : begin + len(part)] = part
            begin += len(part)

    def read(self, begin: int, size: int) -> bytes:
        """Reads `size` bytes. Raises Garbage if the region is shorter."""
        if size == 0:
            return b""
        if begin + size > self._size:
            there = os.fstat(self._file).st_size
            if begin + size > min(there, MOST_BYTES):
                raise Garbage(f"{plural(begin + size, 'byte')} said to be in a region of {there}")
            self._open(there, mmap.PROT_READ)
        assert self._map is not None
        return self._map[begin : begin + size]

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None
        os.close(self._file)

    def _open(self, size: int, access: int) -> None:
        if self._map is not None:
            self._map.close()
        self._map = mmap.mmap(self._file, size, prot=access)
        self._size = size


class Channel:
    """An end of the channel.

    Args:
        mine: region that this side writes.
        theirs: region that the other side writes.
    """

    def __init__(self, connection: socket.socket, mine: Region, theirs: Region) -> None:
        self._connection = connection
        self._mine = mine
        self._theirs = theirs

    def send(self, body: bytes, rows: Any = b"") -> None:
        """Sends a message without waiting. Raises PeerEnded, MessageTooLarge, or Garbage if the other side does not
        read."""
        self._mine.write((rows, body))
        header = HEADER.pack(MAGIC, len(rows), len(body))
        try:
            sent = self._connection.send(header, socket.MSG_DONTWAIT)
        except BlockingIOError:
            raise Garbage("it reads nothing of what it is sent") from None
        except OSError as error:
            raise PeerEnded(str(error)) from None
        if sent < len(header):
            raise Garbage("it reads nothing of what it is sent")

    def receive(self, await_more: Callable[[], object] = lambda: None) -> tuple[bytes, bytes]:
        """Returns the body and the rows of the next message.

        Args:
            await_more: called before each read of the socket; returns when there is input, or raises.

        Raises:
            PeerEnded, Garbage
        """
        header = b""
        while len(header) < HEADER.size:
            await_more()
            try:
                more = self._connection.recv(HEADER.size - len(header))
            except ConnectionResetError:
                more = b""
            if not more:
                raise PeerEnded
            header += more
        magic, rows, body = HEADER.unpack(header)
        if magic != MAGIC:
            raise Garbage(f"a header that begins with {magic!r}")
        return self._theirs.read(rows, body), self._theirs.read(0, rows)

    def fileno(self) -> int:
        return self._connection.fileno()

    def close(self) -> None:
        self._connection.close()
        self._mine.close()
        self._theirs.close()


def pair() -> tuple[Channel, tuple[int, int, int]]:
    """The channel of this side, and the descriptors for the other side to inherit: its socket, its region, our
    region.
    """
    here, there = socket.socketpair()
    ours, its = _new_file("to-code"), _new_file("from-code")
    descriptors = there.detach(), os.dup(its), os.dup(ours)
    return Channel(here, Region(ours), Region(its)), descriptors


def inherited(descriptors: Sequence[int]) -> Channel:
    """The channel of the other side, in the process that inherited these descriptors. Its own children do not inherit
    them."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    connection, mine, theirs = descriptors
    return Channel(socket.socket(fileno=connection), Region(mine), Region(theirs))


def _new_file(name: str) -> int:
    """A file that cannot become shorter, because reading beyond the end of mapped memory kills the process."""
    if sys.platform != "linux":
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())
    import fcntl

    file = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return file
