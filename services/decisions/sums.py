"""Sums of counts by the units of a job.

Source: PROTOCOL 7: readers of progress take the maximum of what they have read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from holdfast.schemas.leaps import widest
from holdfast.schemas.plans import Counts
from holdfast.schemas.progress import Progress


def furthest(records: Iterable[Progress]) -> dict[str, Progress]:
    """Returns the furthest progress of each unit."""
    found: dict[str, Progress] = {}
    for record in records:
        known = found.get(record.unit)
        if known is None or not behind(record, known):
            found[record.unit] = record
    return found


def behind(record: Progress, known: Progress) -> bool:
    """True if the record is behind the known one: a copy that lags repeats earlier reports."""
    return (record.line, record.processed, record.durable) < (known.line, known.processed, known.durable)


def summed(units: Iterable[Progress]) -> Counts:
    """Returns the sums over one record per unit."""
    every = list(units)
    return Counts(
        records=sum(one.records for one in every),
        late=sum(one.late for one in every),
        dead=sum(one.dead for one in every),
        lost=sum(one.lost for one in every),
        late_dropped=dict(sum((Counter(one.late_dropped) for one in every), Counter())),
        leap=widest(one.leap for one in every),
    )


def counted(record: Counts) -> Counts:
    """Returns only the counts of a record that has further fields."""
    return Counts(**{name: getattr(record, name) for name in Counts.__struct_fields__})
