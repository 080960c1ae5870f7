"""Service log: the messages of a process on its error stream. A message never ends the process.

The stream is a file on a disk that may be full; a line that cannot be written is dropped. Messages of libraries, such
as aiokafka's for each attempt to connect, go through the same log; repeats are counted (repeats.py). docs/metrics.md,
"Logs", describes the content of a line.
"""

from __future__ import annotations

import atexit
import json
import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Hashable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, TextIO, cast

import structlog

from holdfast.schemas.assignments import split_unit_key
from holdfast.services.diagnostics.repeats import Repeated, Repeats
from holdfast.services.diagnostics.settings import Format

_DIGITS = re.compile(r"\d+")
_LIBRARIES = logging.WARNING
"""Level below which messages of libraries do not help people who run a cluster."""

_open: list[Lines] = []


class Unfailing:
    """A text stream that drops text it cannot write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def open_service_log(level: str, form: Format = "text", **fields: str) -> None:
    """Sets up printing, logging and warnings of this process; call it once, first.

    Args:
        level: lowest level of the product's own messages.
        fields: fields of every line, such as the name of the process.
    """
    keep_printing()
    lines = Lines(sys.stderr, form, fields)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        processors=[structlog.processors.add_log_level, structlog.processors.format_exc_info, lines.ours],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.root.handlers[:] = [_Libraries(lines)]
    logging.root.setLevel(_LIBRARIES)
    logging.captureWarnings(True)
    sys.excepthook = lines.crashed
    threading.excepthook = lambda args: lines.crashed(args.exc_type, args.exc_value, args.exc_traceback)
    _open.append(lines)
    atexit.register(close_service_log)


def close_service_log() -> None:
    """Writes the numbers of repeats left out so far, for a process that ends without Python's own shutdown."""
    for lines in _open:
        lines.end()
    sys.stderr.flush()


def keep_printing() -> None:
    """Makes both output streams unfailing."""
    sys.stdout, sys.stderr = cast(TextIO, Unfailing(sys.stdout)), cast(TextIO, Unfailing(sys.stderr))


def stamp() -> str:
    """The time of day with milliseconds and zone, ISO 8601."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def line(form: Format, level: str, event: str, fields: Mapping[str, Any]) -> str:
    """A message as text or as a JSON object, with the same keys in the same order."""
    if form == "json":
        return json.dumps({"time": stamp(), "level": level, "event": event, **fields}, default=str)
    said, trace = " ".join(event.split()), fields.get("exception")
    shown = " ".join(f"{name}={_text(value)}" for name, value in fields.items() if name != "exception")
    return f"{stamp()} {level:<8} {said:<30} {shown}".rstrip() + (f"\n{trace}" if trace else "")


class Lines:
    """Writes the messages of this process without repeats, from any thread.

    Args:
        fields: fields of every line.
    """

    def __init__(self, stream: TextIO, form: Format, fields: Mapping[str, str]) -> None:
        self._stream = stream
        self._form = form
        self._fields = dict(fields)
        self._repeats = Repeats()
        self._lock = threading.Lock()

    def ours(self, _logger: object, _method: str, said: Any) -> str:
        """Writes a message, as the last processor of structlog."""
        event, level = str(said.pop("event", "")), str(said.pop("level", "info"))
        fields = {name: value for name, value in _named(said).items() if value not in ("", None)}
        self.say(level, event, fields, (level, event, *map(str, fields.items())))
        raise structlog.DropEvent

    def say(self, level: str, event: str, fields: Mapping[str, Any], kind: Hashable) -> None:
        """Writes a message, or counts it as a repeat.

        kind: equal for messages that are repeats of each other.
        """
        with self._lock:
            now_s = time.monotonic()
            for repeated in self._repeats.due(now_s):
                self._write_repeated(repeated)
            if self._repeats.take(kind, now_s):
                self._write(level, event, fields)

    def crashed(self, kind: type[BaseException], error: BaseException | None, trace: Any) -> None:
        """Logs an uncaught error."""
        text = "".join(traceback.format_exception(kind, error, trace))
        self.say("critical", "a thread or the process ends by an error", {"exception": text}, text)

    def end(self) -> None:
        """Writes the numbers of messages left out so far."""
        with self._lock:
            for repeated in self._repeats.rest(time.monotonic()):
                self._write_repeated(repeated)

    def _write_repeated(self, repeated: Repeated) -> None:
        level, event, *_ = cast(tuple[str, str], repeated.key)
        self._write(level, event, {"repeated": repeated.times, "within_s": round(repeated.seconds, 1)})

    def _write(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        self._stream.write(line(self._form, level, event, {**self._fields, **fields}) + "\n")
        self._stream.flush()


class _Libraries(logging.Handler):
    """Handles messages of libraries. Numbers in a message, such as those of attempts, do not distinguish messages."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        level, text = record.levelname.lower(), record.getMessage()
        fields: dict[str, Any] = {"logger": record.name}
        if record.exc_info is not None and record.exc_info[0] is not None:
            fields["exception"] = "".join(traceback.format_exception(*record.exc_info))
        template = str(record.msg) if record.args else _DIGITS.sub("#", text)
        self._lines.say(level, text, fields, (level, template, record.name))


def _named(said: Mapping[str, Any]) -> dict[str, Any]:
    """The name of a unit in the log, `job@generation/unit`, as the three fields that it consists of."""
    with suppress(ValueError):
        job, generation, unit = split_unit_key(str(said.get("unit", "")))
        return {"job": job, "generation": generation, **said, "unit": unit}
    return dict(said)


def _text(value: object) -> str:
    shown = str(value)
    return repr(shown) if not shown or "=" in shown or any(map(str.isspace, shown)) else shown
