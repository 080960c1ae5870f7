"""A Spark driver in memory: the loop of a driver's process over engines in this process.

Source: JOBS `try`.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from holdfast.schemas.analysis import Answer, Question
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import MICRO_BATCH, Problem
from holdfast.schemas.topics import ClusterTopics
from holdfast.services.hosting.identity import Identity
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.log.protocol import Log
from holdfast.services.spark import analysis
from holdfast.services.spark.host import HOSTS, Host
from holdfast.services.spark.local.engine import LocalEngine, LocalRoom
from holdfast.services.spark.local.session import SparkDoesNotStart, local_session, scratch, whole_answers
from holdfast.services.spark.session import own_session

NAME = "local-spark"
RIPE_TURNS = 20
"""Turns without work of the worker, a millisecond each, after which Spark processes new records. A micro-batch costs
more than all of these turns."""


def ask(question: Question) -> Answer:
    """Asks Spark for the output of an operator; always for micro-batches, which give the rows of any mode.

    Raises:
        JobRejected: there is no session.
    """
    try:
        spark = local_session()
    except SparkDoesNotStart as error:
        raise JobRejected([Problem("spark", str(error))]) from error
    allow = None if question.allow is None else list(question.allow)
    with whole_answers():
        found = analysis.answer(own_session(spark, question.operator.conf), question.operator, allow)
    return msgspec.structs.replace(found, mode=MICRO_BATCH, reason="a run in memory has no other mode")


class LocalDriver:
    """A driver that takes turns with the worker of a run."""

    def __init__(
        self, log: Log, cluster: ClusterTopics, clock_ms: Callable[[], float], time_ms: Callable[[], int],
        allow: list[str],
    ) -> None:  # fmt: skip
        self._quiet = 0
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=scratch()))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        room = LocalRoom(log, folder, allow, time_ms, ripe=lambda: self._quiet >= RIPE_TURNS)
        self.host = Host(
            Identity(NAME, f"{NAME}-000001", hosts=HOSTS),
            log,
            cluster,
            engine=lambda plan, spark, topics: LocalEngine(plan, spark, topics, room),
            fault=lambda: "",
            clock_ms=clock_ms,
            time_ms=time_ms,
            wait=lambda seconds: None,
        )

    def turn(self, worked: bool) -> bool:
        """Takes a turn. True if a copy's state or batch changed. `worked` is True if the worker had work in its
        turn.
        """
        self._quiet = 0 if worked else self._quiet + 1
        before = self._batches()
        with whole_answers():
            self.host.turn()
        return before != self._batches()

    def _batches(self) -> list[tuple[str, int]]:
        return [(copy.state, copy.batch) for copy in self.host.copies()]

    def heartbeat(self, time_ms: int, versions: Mapping[str, str]) -> Heartbeat:
        identity = self.host.identity
        return Heartbeat(
            worker=identity.worker,
            incarnation=identity.incarnation,
            time_ms=time_ms,
            slots=identity.slots,
            decided=self.host.decided,
            versions=dict(versions),
            copies=self.host.copies(),
            hosts=identity.hosts,
        )
