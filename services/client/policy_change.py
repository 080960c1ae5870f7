"""Requests another checkpoint policy, and waits for the answer in `assignments`."""

from __future__ import annotations

import time
from contextlib import suppress

from msgspec.structs import replace

from holdfast.schemas import commands
from holdfast.schemas.commands import Command
from holdfast.services.client.submission import LOOK_AGAIN_S, append
from holdfast.services.kernel.errors import CommandFailed, Retriable
from holdfast.services.view.cluster import policy_line
from holdfast.services.view.door import Door
from holdfast.services.view.lines import JobLine, PolicyLine
from holdfast.services.view.reader import read_all


def change_policy(door: Door, job: JobLine, command: Command, timeout_s: float) -> PolicyLine:
    """Returns the policy in force after the request; workers follow it from the moment they read the record.

    Raises:
        CommandFailed: the change is refused, or not decided in time (it may be later).
    """
    offset = append(door, commands.encode(replace(command, job=job.job)))
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with suppress(Retriable):  # a broker that is busy is asked again
            view = read_all(door)
            plan = view.plan(job.generation)
            answer = None if plan is None else view.policy(plan)
            if answer is not None and answer.asked == offset and answer.refusal:
                raise CommandFailed(f"refused: {answer.refusal}")
            if answer is not None and answer.asked >= offset:
                return policy_line(answer)
        time.sleep(LOOK_AGAIN_S)
    raise CommandFailed(
        f"the checkpoint policy of {job.job} is not decided after {timeout_s:g} s",
        "a controller decides it: `holdfast list`",
    )
