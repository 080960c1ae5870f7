"""Outages, in `assignments`: units that no copy can continue, until they have recovered.

A record is a permission for readers, never an order: no reader needs to wait for a unit that is out. A reader that
ignores outages waits, as before, so they need no format of their own. Source: MECHANISMS P12 and P13, PROTOCOL 11.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from holdfast.schemas.decoders import Count, Positive

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Name = Annotated[str, msgspec.Meta(pattern=r"\A[^@/]+\Z")]


class Outage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The beginning or the end of one outage of a unit.

    number: of the outage among those of this unit.
    epoch: of the unit's last change that the author had read.
    upto: the newest batch that any unit of the job was known to have processed.
    fidelity: by query, the output fidelity with all units gone that are out now.
    over: true for the end of the outage.
    banned: true once work without the missing units has ended a worker: the job does no more of it until this outage is
        over.

    A record that begins an outage is valid iff no outage of the unit is open, the number is above the last one's, and
    the epoch is the unit's at that place of the log: an author that has not read a placement cannot state that the new
    copy is out. A record that ends an outage is valid iff that outage is the unit's open one. A record that bans is
    valid iff that outage is the unit's open one, and not banned yet.
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
