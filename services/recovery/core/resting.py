"""Rest of all units, checked in portions: a check of a thousand units takes longer than a turn may."""

from __future__ import annotations

from holdfast.services.recovery.core.known import ReplicaView

AT_ONCE = 50
"""Number of units that one call checks."""


class Resting:
    """Checks some units with each call. The result for the units before counts as long as nothing has changed."""

    def __init__(self) -> None:
        self._left: list[str] = []
        self._since: tuple[int, int] | None = None

    def look(self, known: ReplicaView) -> bool | None:
        """True if all units are at rest, False if one is not; None if some are left and all checked ones are at
        rest.
        """
        stirred = known.stirred_us, known.detector.stirred_us
        if not known.restful or self._since not in (None, stirred):
            self._since = None
            return False
        if self._since is None:
            self._left = known.units()
            self._since = stirred
        some, self._left = self._left[:AT_ONCE], self._left[AT_ONCE:]
        rest = known.rest(some)
        if rest and self._left:
            return None
        self._since = None
        return rest
