"""Jobs for a process that starts late, from a snapshot in `jobs.plans`.

Source: PROTOCOL 1; docs/decisions/0056-snapshots-of-jobs.md.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import msgspec

from holdfast.schemas import plans
from holdfast.schemas.plans import Retirement, Snapshot
from holdfast.schemas.retired import Retired
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.admitted import Admitted
from holdfast.services.decisions.jobs import Jobs, plausible
from holdfast.services.log.late.start import Decided, read_late
from holdfast.services.log.protocol import Log, Message

FIRST_STRETCH = 512

Feed = Callable[[Partition, int, int, bytes], object]
"""Takes (partition, offset, timestamp in ms, value)."""


def read_jobs(log: Log, topics: ClusterTopics) -> Jobs:
    """The records of `jobs.plans` that count now; reading continues at its `next`. Raises Retriable, StateCorrupted.

    A controller that lagged may write a snapshot that refers to deleted `submit` records: reading never begins with it.
    """
    submit = Partition(topics.submit, 0)
    start = log.offsets([submit], "start")[submit]
    whole = replace(PLANS, plausible=lambda one, offset: plausible(one, offset) and one.submit >= start)
    return read_late(log, Partition(topics.plans, 0), whole)


def read_admitted(log: Log, topics: ClusterTopics) -> Admitted:
    """The decisions that count now. Raises Retriable, StateCorrupted."""
    return read_jobs(log, topics).admitted


def positions(log: Log, topics: ClusterTopics, jobs: Jobs) -> dict[Partition, int]:
    """Offsets at which reading continues behind the records that `feed_kept` feeds. Raises Retriable."""
    submit = Partition(topics.submit, 0)
    begins = log.offsets([submit], "start")[submit] if jobs.base is None else jobs.base.submit
    return {Partition(topics.plans, 0): jobs.next, submit: begins}


def feed_kept(topics: ClusterTopics, jobs: Jobs, feed: Feed) -> None:
    """Feeds the records of both topics that count, plans before the commands that concern them.

    Retirements count, too: without them, an old plan of a retired job, appended again by a person, would admit the job.
    """
    plans_topic = Partition(topics.plans, 0)
    for one in jobs.records():
        feed(plans_topic, one.offset, one.time_ms, one.record.encode())
    if (retired := jobs.admitted.retired) != Retired():
        feed(plans_topic, jobs.next - 1, jobs.base.time_ms if jobs.base else 0, plans.encode(Retirement(retired)))
    for one in () if jobs.base is None else jobs.base.commands:
        feed(Partition(topics.submit, 0), one.offset, one.time_ms, one.record.encode())


def _snapshot(message: Message) -> Snapshot | None:
    try:
        record = plans.decode_any(message.value() or b"")
    except msgspec.DecodeError:
        return None
    return record if isinstance(record, Snapshot) else None


def _read(jobs: Jobs, message: Message) -> None:
    """Adds a record to the jobs; a record that cannot be decoded is skipped, as by every reader."""
    with suppress(msgspec.DecodeError):
        jobs.read(message.offset(), message.timestamp()[1], message.value() or b"")


PLANS: Decided[Snapshot, Jobs] = Decided(b'"snapshot"', _snapshot, plausible, Jobs, read=_read, stretch=FIRST_STRETCH)
