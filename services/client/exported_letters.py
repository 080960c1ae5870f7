"""Dead letters in a file, a JSON object a line: exported to be corrected by hand, and read again to be resent.

A line names the record by topic, partition and offset, and holds its key and value: as text, or under `key_base64` and
`value_base64` where they are not UTF-8. A person may change both.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.schemas.dead_letters import Position
from holdfast.schemas.topics import JobTopics
from holdfast.services.client.resent_letters import Originals, letters_of
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.log.protocol import Log

_MOST_PROBLEMS = 5
_PLACE = ("topic", "partition", "offset")


@dataclass(slots=True)
class Exported:
    """Counts of an export.

    Attributes:
        written: lines.
        of_operators: rows of operators, which are no records.
        gone: records of which neither the topic nor the dead letter has all bytes.
    """

    written: int = 0
    of_operators: int = 0
    gone: int = 0


def lines_of(log: Log, topics: JobTopics, present: Mapping[str, int], found: Exported) -> Iterator[bytes]:
    """A line for each record that a source refused, in the order in which they were refused.

    Args:
        log: the cluster's.
        topics: of the job.
        present: partitions of the topics there are.
        found: counts what is written and what is not.
    """
    originals = Originals(log, present)
    try:
        for _, letter in letters_of(log, topics):
            original = None if letter.of_operator else originals.of(letter)
            if letter.of_operator or (original is None and letter.truncated):
                found.of_operators += letter.of_operator
                found.gone += not letter.of_operator
                continue
            found.written += 1
            line: dict[str, Any] = {"topic": letter.topic, "partition": letter.partition, "offset": letter.offset}
            line |= {"reason": letter.reason, **_written("key", None if original is None else original.key())}
            line |= _written("value", letter.raw if original is None else original.value())
            yield msgspec.json.encode(line)
    finally:
        originals.close()


def mended(lines: Iterable[bytes], file: str) -> dict[Position, tuple[bytes | None, bytes | None]]:
    """Key and value by the record's position.

    file: name of the file, for messages.

    Raises:
        UnusableFile: lines are wrong; the message has the numbers of the first of them.
    """
    found: dict[Position, tuple[bytes | None, bytes | None]] = {}
    problems: list[str] = []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            at, key, value = _read(text)
            if at in found:
                raise ValueError(f"{at.topic}[{at.partition}] offset {at.offset} stands in a line before")
            found[at] = key, value
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    if problems:
        more = f"; and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
        raise UnusableFile(f"{file}: {'; '.join(problems[:_MOST_PROBLEMS])}{more}", "nothing was sent")
    return found


def _read(text: bytes) -> tuple[Position, bytes | None, bytes | None]:
    try:
        line = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"no JSON: {error}") from None
    if not isinstance(line, dict):
        raise ValueError("no JSON object")
    topic, partition, offset = (line.get(name) for name in _PLACE)
    if not isinstance(topic, str) or not isinstance(partition, int) or not isinstance(offset, int):
        raise ValueError(f"{', '.join(_PLACE)} are to name a record")
    return Position(topic, partition, offset), _bytes(line, "key"), _bytes(line, "value")


def _written(name: str, value: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value or b"").decode()}


def _bytes(line: Mapping[str, Any], name: str) -> bytes | None:
    """A text as it is; an object or array, in place of its text, as JSON."""
    coded = line.get(f"{name}_base64")
    if (name in line) == (coded is not None):
        raise ValueError(f"{name} or {name}_base64 is to be there, one of the two")
    value = line.get(name)
    if isinstance(coded, str):
        try:
            return binascii.a2b_base64(coded, strict_mode=True)
        except ValueError:
            raise ValueError(f"{name}_base64 is no base64") from None
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value)
    if value is None and coded is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{name} is to be a text, an object, an array or null")
    return value.encode()
