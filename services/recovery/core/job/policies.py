"""Commands for another checkpoint policy that no controller has answered yet; later requests for schemes wait for them.

Source: docs/decisions/0084. So a scheme is judged by the policy that was asked for before it.
"""

from __future__ import annotations


class OpenPolicies:
    """Offsets of the commands in `jobs.submit`, by job (`<job>@<generation>`)."""

    def __init__(self) -> None:
        self._asked: dict[str, list[int]] = {}

    def ask(self, job: str, offset: int) -> None:
        self._asked.setdefault(job, []).append(offset)

    def forget(self, job: str) -> None:
        """Forgets a job that has ended."""
        self._asked.pop(job, None)

    def before(self, job: str, offset: int, answered: int) -> bool:
        """True if a policy was asked for before this offset and is not answered.

        answered: offset of the last answered command.
        """
        if job not in self._asked:
            return False
        waiting = self._asked[job] = [one for one in self._asked[job] if one > answered]
        return any(one < offset for one in waiting)
