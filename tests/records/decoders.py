"""Damaged records through the decoder of a source: each gives the values that another library reads, or a reason.

So nothing that is damaged becomes null in silence, crashes, or holds a decoder up.
"""

from __future__ import annotations

import signal
from collections import Counter
from random import Random
from types import FrameType

from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.client.local_run import complete
from holdfast.services.client.planned_job import plan
from holdfast.services.kernel.dataflow.source_records import SourceDecoder
from tests.records.damage import damaged
from tests.records.drawing import Pool
from tests.records.formats import FORMATS, registry, source_of
from tests.records.fuzz import Counted
from tests.records.independent import NoReader, Read, alike, reader

WHOLE = 200
"""So many records are drawn whole for each part, and damaged many times."""
AT_ONCE = (1, 20, 500, 500)
MOST_S = 60
"""A batch that takes so long holds its source up."""


class Unlike(AssertionError):
    """A record whose values are not those that another library reads."""


def damaged_part(format: str, seed: int, count: int) -> Counted:
    """Damages so many records, and holds what the decoder makes of each against another reader. Raises Unlike."""
    some = Random(f"damaged {format} {seed}")
    pool = Pool(some)
    known, read, decoder = registry(format, pool), reader(format, pool), _decoder(format, pool)
    drawn = (FORMATS[format].draw(some, index, pool) for index in range(3 * WHOLE))
    whole = [one.value for one in drawn if one.value is not None and one.taken][:WHOLE]
    counted = Counted()
    signal.signal(signal.SIGALRM, _held_up)
    source = SourceDecoder(decoder, known)
    while counted.records < count:
        size = min(some.choice(AT_ONCE), count - counted.records)
        records = [damaged(some, format, whole) if some.random() < 0.95 else some.choice(whole) for _ in range(size)]
        signal.alarm(MOST_S)
        found = source.decode(records, [0] * size, {})
        signal.alarm(0)
        refused = dict(found.refused)
        if not all(refused.values()) or len(refused) < len(found.refused):
            raise Unlike(f"a record is refused twice, or without a reason: {found.refused}")
        unread = _compare(records, found.kept.tolist(), found.rows.to_dicts(), refused, read)
        reasons = Counter(text[:40] for text in refused.values())
        counted.add(Counted(size, found.rows.height, len(refused), reasons, unread=unread))
    return counted


def _held_up(number: int, frame: FrameType | None) -> None:
    raise Unlike(f"a batch took more than {MOST_S} s")


def _decoder(format: str, pool: Pool) -> OperatorPlan:
    source = {"topic": "s", "fields": FORMATS[format].fields, "max_ahead_s": None, **source_of(format, pool)}
    job = {"name": "damaged", "sources": {"s": source}, "queries": {"q": {"input": "s", "sink": {"topic": "q"}}}}
    made = plan(complete(JobSpec.model_validate(job)), None, "holdfast", [])
    return next(one for one in made.operators if one.kind == "source")


def _compare(
    records: list[bytes], kept: list[int], rows: list[dict[str, object]], refused: dict[int, str], read: Read
) -> int:
    """Records that the other library cannot read at all. Raises Unlike."""
    unread = 0
    taken = dict[int, list[dict[str, object]]]()
    for place, one in zip(kept, rows, strict=True):
        taken.setdefault(place, []).append(one)
    for place, record in enumerate(records):
        ours = taken.get(place)
        if ours is None:
            if place not in refused and not _empty(record, read):
                raise Unlike(f"neither a row nor a reason: {record!r}")
            continue
        if place in refused:
            raise Unlike(f"rows and a reason: {record!r}")
        try:
            theirs = read(record)
        except NoReader:
            unread += 1
            continue
        except Exception as error:
            raise Unlike(f"elsewhere {type(error).__name__}: {error}; taken as {ours}: {record!r}") from None
        if len(ours) != len(theirs):
            raise Unlike(f"{len(ours)} rows, and elsewhere {len(theirs)}: {record!r}")
        for mine, other in zip(ours, theirs, strict=True):
            for name, expected in other.items():
                if not alike(mine.get(name), expected):
                    raise Unlike(f"{name} is {mine.get(name)!r}, and elsewhere {expected!r}: {record!r}")
    return unread


def _empty(record: bytes, read: Read) -> bool:
    """True of a table of Arrow without rows, as far as somebody else can read it."""
    try:
        return read(record) == []
    except NoReader:
        return True
    except Exception:
        return False
