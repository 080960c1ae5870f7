"""Records of the files of a Spark query's checkpoint: pieces of files, and notes that say which files it has.

Source: PROTOCOL 12. The topic is compacted and each record has a key of its own, so nothing is ever replaced: a record
without a value deletes the record of its key. services/spark/core/received_files.py decides which files a checkpoint
has.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from holdfast.schemas.decoders import Count, Strict

PIECE_BYTES = 256 * 1024
"""Size of all pieces of a file but the last one: three of them fit into a batch of the client, and one into any record
that a topic takes by default."""


class FileId(NamedTuple):
    """A file as one writer sent it once. The numbers of a writer rise in the order of its records."""

    writer: str
    number: Count


class Piece(msgspec.Struct, frozen=True, tag="piece", tag_field="type"):
    """A piece of a file.

    path: below the directory of the checkpoint.
    count: number of pieces of the file.
    sum: 53 bits of xxh3 of the content.
    """

    path: str
    count: Count
    sum: Count
    content: bytes


class Sent(msgspec.Struct, frozen=True, array_like=True):
    """Files of one writer: first and last number of each range."""

    writer: str
    ranges: tuple[tuple[Count, Count], ...]


class Note(msgspec.Struct, frozen=True, tag="note", tag_field="type"):
    """The files of the checkpoint as of micro-batch k, by writer and number.

    A note counts if the valid commit k of the commit log has its epoch and attempt. Its writer has appended it, and the
    files before it, before the commit.

    root: directory that holds the checkpoints of this query where the files were written, one for each epoch.
    writer, next: of this note, and the number of its next file.
    digest: sum over all files.
    """

    epoch: Count
    k: Count
    attempt: Count
    root: str
    writer: str
    next: Count
    files: tuple[Sent, ...]
    digest: Count


QueryFileRecord = Piece | Note

_PIECE = re.compile(rb"(?P<writer>[0-9a-z-]{1,40})/(?P<number>[0-9]{1,15})/(?P<index>[0-9]{1,15})")

_decoder: Strict[QueryFileRecord] = Strict(msgspec.msgpack.Decoder(QueryFileRecord).decode)
_encoder = msgspec.msgpack.Encoder()


def piece_key(id: FileId, index: int) -> bytes:
    return f"{id.writer}/{id.number}/{index}".encode()


def note_key(note: Note) -> bytes:
    return f"{note.writer}/note/{note.k}/{note.attempt}".encode()


def of_piece(key: bytes) -> tuple[FileId, int] | None:
    """The file and the index of a piece by its key; None for another key."""
    found = _PIECE.fullmatch(key)
    return None if found is None else (FileId(found["writer"].decode(), int(found["number"])), int(found["index"]))


def decode(data: bytes) -> QueryFileRecord:
    """Decodes a record. Raises msgspec.DecodeError on malformed bytes."""
    return _decoder.decode(data)


def encode(record: QueryFileRecord) -> bytes:
    return _encoder.encode(record)
