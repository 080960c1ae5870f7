"""Errors, each named by the required reaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.schemas.plans import Problem
    from holdfast.schemas.topics import Partition


class HoldfastError(Exception):
    """The base of all errors of holdfast."""


class Retriable(HoldfastError):
    """An operation did nothing, or is not known to be wrong: try again."""


class Indefinite(HoldfastError):
    """A commit may or may not have happened: drop the producer, start a new one, read the position."""


class Forbidden(Retriable):
    """Kafka refuses access: a retry succeeds only after a person has changed the permission."""


class Awaited(Retriable):
    """Rows have no place to go now: keep them until the place exists again or a person has repaired it."""


class TopicGone(Awaited):
    """The topic of a write does not exist: nothing was written; try again when it exists again."""


class SinkUnready(Awaited):
    """A database takes no rows now: it does not answer, or lacks something that a person can add."""


class Refused(Retriable):
    """Kafka or a database answers, but refuses a transaction: nothing was committed; try again, but not for ever."""


class Torn(HoldfastError):
    """A transaction is committed in part, by a fault of Kafka that cannot be repaired here: report it and stop."""


class InvalidRecord(HoldfastError):
    """A record that cannot be processed: to the dead letters."""


class Fenced(HoldfastError):
    """Another copy has taken over the transactional id: stop this copy."""


class StateCorrupted(HoldfastError):
    """The image and the inputs of a copy do not fit together: rebuild the copy from the checkpoint log."""


class PositionGone(StateCorrupted):
    """A partition does not hold the position to read: it was trimmed beyond it, or has lost its tail."""

    def __init__(self, partition: Partition, position: int, held: str) -> None:
        self.partition = partition
        super().__init__(f"{partition}: position {position} is not in the log (any more): {held}")


class FramesMissing(StateCorrupted):
    """A frame of a writer follows a missing one.

    offset: the offset of the frame after the gap.
    """

    def __init__(self, partition: str, offset: int, missing: str) -> None:
        self.partition = partition
        self.offset = offset
        super().__init__(f"{partition} offset {offset}: {missing}")


class TopicChanged(HoldfastError):
    """A user's topic differs from the plan of the job: stop, and let a person decide."""


class TooManyDeadLetters(HoldfastError):
    """The number of records that cannot be processed exceeds the job's limit: stop, and let a person decide."""


class TooLarge(HoldfastError):
    """The state of a unit exceeds the job's limit: stop, and let a person decide."""


class WorkerUnfit(HoldfastError):
    """This process cannot host copies, for example because its disk is full: end it; its units continue elsewhere."""


class OtherFormat(HoldfastError):
    """The cluster writes in a format that this release does not read: end the process, start a newer release of it."""


class Unreachable(HoldfastError):
    """A cut names records that its partition does not hold: a person decides how to continue."""


class NoRegistry(HoldfastError):
    """Records name schemas, but this process has no registry: a person must set its address or install the missing
    package.
    """


class NoFolder(HoldfastError):
    """The folder for rows cannot be written, or differs from the former one: a person must set or mount it."""


class SchemaChanged(HoldfastError):
    """Records name a schema that does not give the fields of their source: stop, and let a person decide."""


class Divergence(HoldfastError):
    """A duplicate with another payload: an operator is not a pure function of its inputs."""


class JobRejected(HoldfastError):
    """The problems of a job file: show all of them to the user."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


FAILED, USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes: the command failed; the command was used wrongly; Ctrl-C ended it."""


class CommandFailed(HoldfastError):
    """Failure of a command: the cause, the fix, and the exit code."""

    def __init__(self, message: str, hint: str = "", code: int = FAILED) -> None:
        self.message = message
        self.hint = hint
        self.code = code
        super().__init__(message)
