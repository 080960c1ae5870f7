"""Reads heartbeats as a recovery replica does, and records their times, without decisions, until it is ended.

`python -m bench.research.detectors.recorder SERVERS FILE`. It is a process of its own, so that it has exactly the
delays of a replica.
"""

from __future__ import annotations

import os
import sys
import time

import msgspec

from bench.research.detectors.recording import Turn
from holdfast.schemas import heartbeats
from holdfast.schemas.heartbeats import Echo, Heartbeat
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.log.door import open_log
from holdfast.services.recovery.replica import ECHO_MS

TURN_S = 0.01


def main(servers: str, file: str) -> None:
    log, where = open_log(servers, ClusterTopics().prefix, "recorder"), Partition(ClusterTopics().heartbeats, 0)
    reader, appender, name = log.reader("beats"), log.appender("echo"), f"recorder-{os.getpid()}"
    reader.assign(log.offsets([where], "end"))
    encode, echo_due_us = msgspec.json.Encoder().encode, 0
    with open(file, "ab", buffering=0) as lines:
        while True:
            if (now_us := monotonic_us()) >= echo_due_us:
                echo_due_us = now_us + ECHO_MS * 1000
                appender.append(where, heartbeats.encode(Echo(name)))
            appender.poll()
            chunks, at_us = reader.poll(TURN_S), monotonic_us()
            read = [heartbeats.decode(m.value() or b"") for chunk in chunks for m in chunk.messages]
            if read:
                echo_due_us = at_us + ECHO_MS * 1000
            beats = tuple((one.worker, one.incarnation) for one in read if isinstance(one, Heartbeat))
            echo = any(isinstance(one, Echo) and one.replica == name for one in read)
            lines.write(encode(Turn(at_us, beats, echo)) + b"\n")


def monotonic_us() -> int:
    return time.monotonic_ns() // 1000


if __name__ == "__main__":
    main(*sys.argv[1:])
