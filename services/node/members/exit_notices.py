"""Exit notices of the processes that host units: when each is sent, and by which of two signs of the end."""

from __future__ import annotations

import signal

from holdfast.services.node.members.members import Member
from holdfast.services.node.members.notices import Notices


class ExitNotices:
    """Exit notices, one for each run of a host, or a second one with what the first did not know.

    The first sign is the process's last moments, before it is gone and has a status; the second is its end. A notice
    has the batches that the process worked on, and only its status shows a signal from outside. The methods may be
    called from any thread.
    """

    def __init__(self) -> None:
        self._notices: Notices | None = None
        self._noticed: dict[str, str] = {}
        self._statusless: set[str] = set()

    def send_by(self, notices: Notices) -> None:
        """Sends notices from now on."""
        self._notices = notices

    def dying(self, member: Member, run: str) -> None:
        """Sends the notice early, in the thread that waits for the process's last moments."""
        self._noticed[member.name] = run
        status = member.dying_status
        if status is None:
            self._statusless.add(run)
        self._send(member, run, -signal.SIGKILL if status is None else status, dying=status is None)

    def ended(self, member: Member, run: str, status: int) -> None:
        """Sends the notice unless an early one has said all of it."""
        if self._noticed.get(member.name) != run or (run in self._statusless and member.left(run)):
            self._send(member, run, status)
        self._statusless.discard(run)

    def _send(self, member: Member, run: str, status: int, dying: bool = False) -> None:
        if self._notices is not None:
            self._notices.ended(member.name, run, status, member.left(run), dying)
