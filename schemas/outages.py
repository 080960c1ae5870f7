"""Outages, in `assignments`: units that no copy can continue, for as long as they have not recovered.

A record is a permission for readers, never an order: nobody need wait for a unit that is out. A reader that leaves
outages out waits, as before, so they need no format of their own. Source: MECHANISMS P12 and P13, PROTOCOL 11.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from holdfast.schemas.reading import Count, Positive

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Name = Annotated[str, msgspec.Meta(pattern=r"\A[^@/]+\Z")]


class Outage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The beginning or the end of one outage of a unit.

    number: of the outages of this unit. epoch: of the unit's last change that the author had read. upto: the newest
    batch that any unit of the job was known to have processed. fidelity: by query, the output fidelity with all units
    gone that are out now.

    A record that begins an outage is valid iff none of the unit is open, the number is above the last one's, and the
    epoch is the unit's at that place of the log: an author that has not read a placement cannot say that the new copy
    is out. A record that an outage is over is valid iff that outage is the unit's open one.

    banned: work without the units that are out has ended a worker: nobody does any more of it in the job until this
    outage is over. Such a record is valid iff that outage is the unit's open one, and not banned yet.
    """

    job: Annotated[str, msgspec.Meta(pattern=r"\A[^@/\s]+\Z")]
    generation: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,18}-[0-9a-f]{6}\Z")]
    unit: Name
    number: Positive
    epoch: Count
    upto: Count
    fidelity: dict[str, Share]
    over: bool = False
    banned: bool = False

    @property
    def job_key(self) -> str:
        """`<job>@<generation>`."""
        return f"{self.job}@{self.generation}"

    @property
    def unit_key(self) -> str:
        """`<job>@<generation>/<unit>`."""
        return f"{self.job_key}/{self.unit}"


class OutageStanding(msgspec.Struct, frozen=True):
    """The last valid record about an outage of a unit, and its offset."""

    offset: Count
    outage: Outage
