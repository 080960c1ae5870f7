"""Records of `jobs.submit`: a JobSpec as it is, or an object with the field `command`.

Source: PROTOCOL 1, JOBS "Submitting by Kafka alone works too".
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.schemas import decoders
from holdfast.schemas.savepoints import Start

COMMANDS = (
    "cancel",
    "pause",
    "resume",
    "drain",
    "scheme",
    "move",
    "drill",
    "checkpoint",
    "rollback",
    "accept",
    "switch",
)
SETTINGS = ("interval_ms", "min_interval_ms", "max_interval_ms", "merge_ms", "every_batches")
"""Settings of a `checkpoint` command besides the policy: those of schemas/job_settings.py, CheckpointSettings."""
STARTS = ("", "earliest", "latest")


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command, named in COMMANDS, on the job of that name.

    drain: a cancel that runs everything out first.
    scheme: needs `unit` and `scheme`; move: `unit` and `worker`; drill: `unit`.
    start: for resume, the place where sources continue whose topics were created again: earliest or latest.
    checkpoint: needs `policy`; of its other settings, the SETTINGS, those that are left out stay as they are.
    rollback: needs `unit`, or means all units.
    accept: the versions that workers have now may lead the job's units, whatever bytes they give.
    switch: needs `generation`, which stands by; it takes over from `begin` on, or is given up where there is none.
    """

    command: str
    job: str
    unit: str = ""
    scheme: str = ""
    worker: str = ""
    start: str = ""
    policy: str = ""
    interval_ms: int | None = None
    min_interval_ms: int | None = None
    max_interval_ms: int | None = None
    merge_ms: float | None = None
    every_batches: int | None = None
    generation: str = ""
    begin: Start | None = None

    @property
    def settings(self) -> dict[str, float]:
        """Settings of a checkpoint policy that the command names."""
        given = {name: getattr(self, name) for name in SETTINGS}
        return {name: value for name, value in given.items() if value is not None}


def decode(data: bytes) -> Command | dict[str, Any]:
    """Decodes a command, or the raw JobSpec. Raises msgspec.DecodeError on any other bytes."""
    record = decoders.json.decode(data)
    if not isinstance(record, dict):
        raise msgspec.ValidationError(f"expected an object, got {type(record).__name__}")
    if "command" not in record:
        return record
    command = msgspec.convert(record, Command)
    if command.command not in COMMANDS:
        raise msgspec.ValidationError(f"unknown command {command.command!r}: one of {', '.join(COMMANDS)}")
    if command.start not in STARTS:
        raise msgspec.ValidationError(f"cannot start from {command.start!r}: {' or '.join(STARTS[1:])}")
    return command


def encode(record: Command | dict[str, Any]) -> bytes:
    return msgspec.json.encode(record)
