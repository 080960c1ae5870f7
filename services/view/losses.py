"""How many records a job's results lack, in words. Source: JOBS `status`, `results`, `replay`, `try`."""

from __future__ import annotations

from collections.abc import Mapping


def dropped_as_late(by_source: Mapping[str, int]) -> str:
    """The number of dropped records, by source."""
    return _counted(by_source, "dropped as late")


def losses(late: Mapping[str, int], lost: Mapping[str, int]) -> str:
    """The same, and what was gone before it could be read."""
    return f"{dropped_as_late(late)}, {_counted(lost, 'lost').replace(' records', '')}"


def _counted(by_source: Mapping[str, int], what: str) -> str:
    shown = ", ".join(f"{name} {count:,}" for name, count in sorted(by_source.items()) if count)
    total = sum(by_source.values())
    return f"{total:,} record{'' if total == 1 else 's'} {what}" + (f" ({shown})" if shown else "")
