"""Complete global checkpoint of a job, from the progress that its units have published.

Source: MECHANISMS R1: every unit has a checkpoint for the same batch. A unit that has ended stays unchanged, so its
last marker counts for every later batch. A unit's report about its markers is void if the unit was rolled back since,
or the checkpoint policy changed since: under another policy the unit may have dropped them.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.schemas.progress import Progress


def newest(progress: Mapping[str, Progress], lines: Mapping[str, int], since: int, above: int) -> int | None:
    """Returns the highest batch above `above` for which every unit has a valid marker; None if there is none.

    Args:
        progress: the newest known progress, by unit.
        lines: the line on which each unit of the job is to be.
        since: offset of the policy.
    """
    units = [_unit(progress.get(unit), line, since) for unit, line in lines.items()]
    live = [one for one in units if not one.ended]
    if not live:
        return None
    ended = max((one.durable for one in units if one.ended), default=0)
    shared = set.intersection(*(set(one.marks) for one in live))
    return max((batch for batch in shared if batch > above and batch >= ended), default=None)


def _unit(known: Progress | None, line: int, since: int) -> Progress:
    """Returns the progress of a unit, or an empty one if it does not count."""
    counts = known is not None and known.line == line and (known.since == since or known.ended)
    return known if known is not None and counts else Progress("", 0, 0)
