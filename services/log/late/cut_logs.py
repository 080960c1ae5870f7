"""Start of a reader of a job's cut log without a marker: the log's start, with the state of a snapshot there.

Source: PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.schemas import cuts
from holdfast.schemas.commits import Commit, is_frame
from holdfast.schemas.commits import decode as decode_commit
from holdfast.schemas.cuts import CutRecord, CutsSnapshot, Snapshot
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.cut_snapshots import KEPT_CUTS, base_of
from holdfast.services.decisions.shares import beginning_of
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.log.protocol import Log


def scan_cuts(log: Log, cut_log: Partition, start: int | None = None) -> Iterator[tuple[int, CutRecord]]:
    """Offset and record of each cut log record that can be decoded; the others are invalid for every reader. Raises as
    `Log.scan`.
    """
    for message in log.scan(cut_log, start):
        try:
            yield message.offset(), cuts.decode(message.value() or b"")
        except msgspec.DecodeError:
            continue


def cuts_base(log: Log, plan: Plan, cut_log: Partition) -> CutsSnapshot:
    """The state with which the cut log begins. Blocks.

    Raises:
        StateCorrupted: the log was trimmed and holds no snapshot, or it is trimmed right now.
        Retriable: Kafka does not answer.
    """
    start = log.offsets([cut_log], "start")[cut_log]
    base = base_of(scan_cuts(log, cut_log, start) if start else (), start, beginning_of(plan))
    if base is None:
        raise StateCorrupted(f"{cut_log} begins at offset {start}, and no snapshot of it says how it stood there")
    return base


def commit_base(log: Log, cut_log: Partition, operator: str, commits: Partition) -> tuple[int, Commit] | None:
    """Offset of a valid commit at which a reader of a Spark operator's log may begin, and the commit.

    None: the reader begins with the first commit. The log is trimmed to a commit at which a cut ends that a snapshot of
        the cut log names. Blocks.

    Raises:
        StateCorrupted: the log was trimmed, and no snapshot names a commit that is left; PositionGone: trimmed right
            now.
        Retriable: Kafka does not answer.
    """
    start = log.offsets([commits], "start")[commits]
    if start == 0:
        return None
    task, begin = task_name(operator, 0), log.offsets([cut_log], "start")[cut_log]
    for _, record in scan_cuts(log, cut_log, begin):
        at = record.state.tasks[task].ranges[0].stop - 1 if isinstance(record, Snapshot) else -1
        if at >= start:
            return at, commit_at(log, commits, at)
    raise StateCorrupted(f"{commits} begins at offset {start}, and no snapshot of {cut_log} names a commit behind that")


def commit_at(log: Log, commits: Partition, offset: int) -> Commit:
    """The commit at an offset that the cut log names. Blocks. Raises StateCorrupted if it is missing, PositionGone,
    Retriable.
    """
    for message in log.scan(commits, offset):
        value = message.value() or b""
        record = None if message.offset() != offset or is_frame(value) else decode_commit(value)
        if isinstance(record, Commit):
            return record
        break
    raise StateCorrupted(f"{commits}: the cut log names a commit at offset {offset}, and there is none")


def snapshot_at(log: Log, cut_log: Partition, upto: int) -> CutsSnapshot | None:
    """The snapshot of the cut log as of this offset; None if there is none. Blocks. Raises PositionGone, Retriable."""
    for offset, record in scan_cuts(log, cut_log, upto):
        if isinstance(record, Snapshot) and record.state.upto == upto:
            return record.state
        if offset > upto + 2 * KEPT_CUTS:
            break
    return None
