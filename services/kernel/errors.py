"""Errors, each named by the reaction it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.schemas.plans import Problem
    from holdfast.schemas.topics import Partition


class HoldfastError(Exception):
    """Every error of ours."""


class Retriable(HoldfastError):
    """Nothing was done or nothing is known to be wrong: try again."""


class Indefinite(HoldfastError):
    """A commit may or may not have happened: drop the producer, start a new one, read the position."""


class Forbidden(Retriable):
    """Kafka answers and refuses: it may be allowed once a person has changed that, no time alone mends it."""


class TopicGone(Retriable):
    """A topic that is to be written does not exist: nothing was written; try again when it is back."""


class Refused(Retriable):
    """Kafka has answered, and does not take a transaction: nothing was committed; tried again, but not for ever."""


class Torn(HoldfastError):
    """A transaction is committed in part, by Kafka's own fault: nothing here can mend that, so say it and stop."""


class InvalidRecord(HoldfastError):
    """A record that cannot be processed: to the dead letters."""


class Fenced(HoldfastError):
    """Another copy has taken over the transactional id: stop this copy."""


class StateCorrupted(HoldfastError):
    """A copy's image or inputs do not fit together: rebuild it from the checkpoint log."""


class PositionGone(StateCorrupted):
    """A partition does not hold the position that is read: it was trimmed above, or has lost its tail."""

    def __init__(self, partition: Partition, position: int, held: str) -> None:
        self.partition = partition
        super().__init__(f"{partition}: position {position} is not in the log (any more): {held}")


class FramesMissing(StateCorrupted):
    """A writer's frames continue behind one that is not there. offset: of the frame that shows it."""

    def __init__(self, partition: str, offset: int, missing: str) -> None:
        self.partition, self.offset = partition, offset
        super().__init__(f"{partition} offset {offset}: {missing}")


class TopicChanged(HoldfastError):
    """A user's topic is no longer what the job was planned for: stop, and let a person decide."""


class TooManyDeadLetters(HoldfastError):
    """More records than the job allows cannot be processed: stop, and let a person decide."""


class TooLarge(HoldfastError):
    """More state than the job allows a unit: stop, and let a person decide."""


class WorkerUnfit(HoldfastError):
    """This process cannot hold copies, as when its disk is full: end it; its units continue elsewhere."""


class OtherFormat(HoldfastError):
    """The cluster writes in a format that this release does not read: end the process, start a newer release of it."""


class Unreachable(HoldfastError):
    """A cut names records that its partition does not hold: a person says what counts."""


class NoRegistry(HoldfastError):
    """Records name schemas, and this process can ask no registry for them: a person sets or installs what it lacks."""


class NoFolder(HoldfastError):
    """Rows go to files in a folder that this process may not write, or that is another one than before: a person sets
    or mounts what it lacks."""


class SchemaChanged(HoldfastError):
    """Records name a schema that does not give the fields of their source: stop, and let a person decide."""


class Divergence(HoldfastError):
    """A duplicate with another payload: an operator is not a pure function of its inputs."""


class JobRejected(HoldfastError):
    """A job file with problems: show the user all of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


FAILED, USAGE = 1, 2
"""Exit codes: it did not work; what was asked for cannot be."""


class CommandFailed(HoldfastError):
    """Failure of a command: the cause, the fix, and the exit code."""

    def __init__(self, message: str, hint: str = "", code: int = FAILED) -> None:
        self.message, self.hint, self.code = message, hint, code
        super().__init__(message)
