"""Rest of all units, looked for in portions: to look at a thousand units takes longer than a turn may."""

from __future__ import annotations

from holdfast.services.recovery.core.known import ReplicaView

AT_ONCE = 50
"""Units that one call looks at."""


class Resting:
    """Looks at some units with each call. What was found of the others counts as long as nothing has stirred since."""

    def __init__(self) -> None:
        self._left: list[str] = []
        self._since: tuple[int, int] | None = None

    def look(self, known: ReplicaView) -> bool | None:
        """None: all that was looked at so far is at rest, and some is left."""
        stirred = known.stirred_us, known.detector.stirred_us
        if not known.restful or self._since not in (None, stirred):
            self._since = None
            return False
        if self._since is None:
            self._left, self._since = known.units(), stirred
        some, self._left = self._left[:AT_ONCE], self._left[AT_ONCE:]
        rest = known.rest(some)
        if rest and self._left:
            return None
        self._since = None
        return rest
