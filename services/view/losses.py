"""Number of records that a job's results lack, each counted once, and in words. Source: JOBS `status`, `results`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from holdfast.services.kernel.plurals import plural

if TYPE_CHECKING:
    from holdfast.schemas.leaps import Leap

_EPOCH = datetime(1970, 1, 1)
OF_AN_OPERATOR = "rows of "
"""Prefix of the name of rows that an operator computed: such rows are no records of a source."""


class Dropped(NamedTuple):
    """Numbers of dropped records.

    by_source: number of records; several sources of one stream are joined by `+`.
    exact: false if there may be more.
    """

    by_source: dict[str, int]
    exact: bool


def once_each(counts: Mapping[str, int]) -> Dropped:
    """Adds up the counts of the operators without counting a record twice.

    Two streams that branch off from one may hold the same records, so of branches only the largest count is sure.

    Args:
        counts: by the names of services/kernel/plans/late_counts.py.
    """
    heads = _branches({tuple(name.split(">")): count for name, count in counts.items() if count})
    sums = {head: _sure(paths) for head, paths in heads.items()}
    by_source, exact = dict[str, int](), True
    for head in sorted(sums, key=lambda one: (-sums[one][0], one)):
        name = head.partition("|")[0]
        if any(set(name.split("+")) & set(other.split("+")) for other in by_source):
            exact = False
        else:
            by_source[name], exact = sums[head][0], exact and sums[head][1]
    return Dropped(dict(sorted(by_source.items())), exact)


_Path = tuple[str, ...]


def _branches(counts: Mapping[_Path, int]) -> dict[str, dict[_Path, int]]:
    found: dict[str, dict[_Path, int]] = defaultdict(dict)
    for (first, *rest), count in counts.items():
        found[first][tuple(rest)] = count
    return found


def _sure(counts: Mapping[_Path, int]) -> tuple[int, bool]:
    """Number of records that a stream and its branches dropped for sure, and true if there are no more."""
    branches = [_sure(branch) for branch in _branches({path: n for path, n in counts.items() if path}).values()]
    sure = counts.get((), 0) + max((count for count, _ in branches), default=0)
    return sure, len(branches) < 2 and all(exact for _, exact in branches)


def dropped_as_late(counts: Mapping[str, int]) -> str:
    """Text with the number of dropped records, by source, and of rows that an operator computed."""
    by_source, exact = once_each(counts)
    records = {name: count for name, count in by_source.items() if not name.startswith(OF_AN_OPERATOR)}
    rows = [f", and {count:,} {name}" for name, count in by_source.items() if name not in records]
    return ("" if exact else "at least ") + _counted(records, "dropped as late") + "".join(rows)


def why_late(leap: Leap | None) -> str:
    """Text with the record that moved the watermark furthest, and both remedies; empty if none stands out."""
    if leap is None:
        return ""
    return (
        f"the watermark was moved most by the record at {leap.topic}[{leap.partition}] offset {leap.offset}, whose "
        f"event time {_EPOCH + timedelta(microseconds=leap.time_us):%Y-%m-%dT%H:%M:%S}Z is "
        f"{leap.by_us / 1_000_000:,.0f} s ahead of all before it; if that time is wrong, a smaller max_ahead_s makes "
        "it a dead letter, else allowed_lateness_s is too short"
    )


def losses(late: Mapping[str, int], lost: Mapping[str, int]) -> str:
    """Text with the number of records dropped as late, and of records that were deleted before they were read."""
    return f"{dropped_as_late(late)}, {_counted(lost, 'lost').replace(' records', '').replace(' record', '')}"


def _counted(by_source: Mapping[str, int], what: str) -> str:
    shown = ", ".join(f"{name} {count:,}" for name, count in sorted(by_source.items()) if count)
    total = sum(by_source.values())
    return f"{plural(total, 'record')} {what}" + (f" ({shown})" if shown else "")
