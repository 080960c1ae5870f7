"""After a crash the metadata records that the former broker is gone, before the next one starts on its data.

Kafka 4.3.1 loses transactions otherwise. A broker that is started again finds that it still leads, takes up the
transactions that were being ended, cannot yet write, tries again every 50 ms, and loses its leadership when the session
of its former life ends. A try that falls into the milliseconds in which its partitions have no leader takes them for
deleted ("likely deleted already", says its log): the transaction is declared complete without an end in some or all of
its partitions. Committed rows are lost then, or delivered again because the position beside them is.

So the controller runs alone until it has fenced the former broker. That takes 1 s, and the start that follows it need
not wait for the session: 2 s in all, where it was 3.

A controller says what it has decided before that is on its disk, some 25 ms later. A controller that was stopped
between the two left a former broker with a session of a minute, and the next start waited for it and failed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.services.node.machine.processes import Child, tail

SETTINGS = ("fence.properties", "log4j2-fence.properties")
LOOK_AGAIN_S = 0.01
STOP_S = 10.0

_ACTIVE = "Performing controller activation"
_REGISTRATION = re.compile(
    r"\bbroker (\d+): (?:RegisterBrokerRecord|BrokerRegistrationChangeRecord)\(.*?\bfenced=(true|false|-?\d)"
)
_DECIDED = re.compile(r"\bReplaying log record .* with offset (\d+)$")
_WRITTEN = re.compile(r"\bCompleting purgatory items up to offset (\d+)\b")
_FENCED = {"true": True, "1": True, "false": False, "-1": False}
"""From the two records; 0 = unchanged."""


class NotFenced(RuntimeError):
    """The controller ended, or took too long; the message ends with its last lines."""


def crashed(data: Path) -> bool:
    """A broker has run on these data and left no mark that it had given up its partitions before it ended."""
    return (data / "__cluster_metadata-0").exists() and not (data / ".kafka_cleanshutdown").exists()


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller that runs without its broker.

    log: file of its output.
    """

    child: Child
    log: Path


@contextmanager
def lone_controller(
    command: Sequence[str], directory: Path, log: Path, descriptors: Mapping[str, Sequence[int]]
) -> Iterator[Controller]:
    """Runs until the end of the block.

    Args:
        command: Java with Kafka's classes; the SETTINGS are in `directory`.
    """
    log.unlink(missing_ok=True)
    settings, logging = SETTINGS
    command = [*command, f"-Dlog4j2.configurationFile={logging}", "kafka.Kafka", settings]
    controller = Child(command, log=log, directory=directory, descriptors=descriptors)
    try:
        yield Controller(controller, log)
    finally:
        controller.stop(STOP_S)


def await_fenced(controllers: Sequence[Controller], deadline: float) -> None:
    """Returns when no broker leads any partition, by the log of the active controller. Raises NotFenced.

    Args:
        deadline: seconds of the monotonic clock.
    """
    while not any(is_fenced(one.log.read_text(errors="replace").splitlines()) for one in controllers):
        ended = next((one for one in controllers if not one.child.running), None)
        if ended is not None or time.monotonic() > deadline:
            last = tail((ended or controllers[0]).log)
            raise NotFenced(f"the controller alone could not fence the broker that crashed:\n{last}")
        time.sleep(LOOK_AGAIN_S)


def is_fenced(lines: Iterable[str]) -> bool:
    """True if the controller has printed that it is active, that no broker is registered unfenced, and that its
    metadata log
    has all of that.
    """
    active, fenced, decided, needed, written = False, dict[str, bool](), -1, -1, -1
    for line in lines:
        active = active or _ACTIVE in line
        if record := _DECIDED.search(line):
            decided = int(record[1])
        elif commit := _WRITTEN.search(line):
            written = int(commit[1])
        elif (registration := _REGISTRATION.search(line)) and registration[2] in _FENCED:
            fenced[registration[1]] = _FENCED[registration[2]]
            # The log already had the records that the controller read before it was active.
            needed = decided if active else -1
    return active and all(fenced.values()) and written >= needed
