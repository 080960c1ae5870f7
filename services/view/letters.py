"""Finds the dead letters of a job, also of a job that is over and no longer in the log of jobs."""

from __future__ import annotations

from holdfast.schemas.topics import JobTopics
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.view.door import Door
from holdfast.services.view.reader import named_job, read_jobs


def find_letters(door: Door, job: str) -> JobTopics:
    """The topics of the job whose dead letters are meant.

    job: name, and perhaps `@` and a generation; without a generation the newest is meant.

    Raises:
        CommandFailed: there is neither such a job nor dead letters of one, or its dead letters are deleted.
    """
    name, _, generation = job.partition("@")
    view, left = read_jobs(door), _left(door, name)
    line = view.find(name)
    if line is None and not left:
        named_job(view, name)
    topics = door.topics.job(name, generation or (left[-1] if line is None else line.generation))
    if topics.dead_letters not in door.present:
        why = f": it is {line.state}" if line is not None else ""
        there = ", ".join(f"{name}@{one}" for one in left)
        raise CommandFailed(f"no dead letters of {job} are kept{why}", f"there are those of {there}" if there else "")
    return topics


def _left(door: Door, job: str) -> list[str]:
    """Generations of the job with present dead letters, the newest last."""
    owners = (door.topics.owner(topic) or "" for topic in door.present if topic.endswith(".dead-letters"))
    found = [owner.partition("@")[2] for owner in owners if owner.startswith(f"{job}@")]
    return sorted(found, key=lambda one: int(one.partition("-")[0]))
