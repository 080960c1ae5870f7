"""Records of `jobs.submit`: a job or a command. Mistakes of a job are found when it is drafted.

Source: PROTOCOL 1, JOBS "Submitting by Kafka alone works too".
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from holdfast.schemas import commands, decoders
from holdfast.schemas.commands import Command
from holdfast.schemas.savepoints import FIELD, Start

MAX_NAME = 100


@dataclass(frozen=True, slots=True)
class NamedJob:
    """A job file, good or bad.

    name: empty if the file has no readable name.
    start: the savepoint with which the job begins.
    """

    name: str
    start: Start | None = None


@dataclass(frozen=True, slots=True)
class BadCommand:
    """A record with `command` that is no known command."""

    job: str
    cause: str


def parse(value: bytes) -> NamedJob | Command | BadCommand:
    try:
        record = decoders.json.decode(value)
    except msgspec.DecodeError:
        return NamedJob("")
    if not isinstance(record, dict):
        return NamedJob("")
    if "command" not in record:
        return NamedJob(_text(record.get("name")), _start(record.get(FIELD)))
    try:
        command = commands.decode(value)
    except msgspec.DecodeError as error:
        return BadCommand(_text(record.get("job")), str(error))
    assert isinstance(command, Command)
    return command


def _start(value: object) -> Start | None:
    try:
        return None if value is None else msgspec.convert(value, Start)
    except msgspec.ValidationError:
        return None  # the draft reports the mistake


def _text(value: object) -> str:
    return value[:MAX_NAME] if isinstance(value, str) else ""
