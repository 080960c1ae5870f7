"""The first answers of Kafka to a service that starts."""

from __future__ import annotations

import time

from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.kernel.errors import Forbidden, Retriable
from holdfast.services.log.protocol import Log

START_S, LOOK_AGAIN_S = 20.0, 0.2
"""START_S: on a loaded machine answers take seconds, and a process that exits for that, and
restarts, adds to the load.
"""


def await_answers(log: Log, topics: ClusterTopics) -> None:
    """Returns once Kafka reports the ends of the topics that every service reads. Raises Retriable after START_S."""
    deadline_s, read = time.monotonic() + START_S, [Partition(name, 0) for name in (topics.assignments, topics.plans)]
    while True:
        try:
            log.offsets(read, "end")
        except Forbidden:
            raise
        except Retriable:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(LOOK_AGAIN_S)
        else:
            return
