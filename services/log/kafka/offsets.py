"""Starts and ends of partitions on Kafka for readers of committed records; impossible answers are refused."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin._listoffsets import EarliestSpec, LatestSpec, OffsetSpec, TimestampSpec

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import Torn
from holdfast.services.log import answers
from holdfast.services.log.answers import EndsSeen, WentBack
from holdfast.services.log.kafka.requests import LOOK_AGAIN_S, Requests
from holdfast.services.log.protocol import At

OPEN_S = 8.0
"""Seconds, longer than the broker leaves any transaction open: its time-out, plus the interval of its checks."""

_NONE_SINCE = -1
_START = EarliestSpec()  # type: ignore[no-untyped-call]
_END = LatestSpec()  # type: ignore[no-untyped-call]
_COMMITTED = IsolationLevel.READ_COMMITTED
_TORN = (
    "Kafka has declared a transaction complete and left it open in {partition}, offsets {stable} to {end}: what it "
    "wrote elsewhere may be committed or not. Kafka 4.3 does that when a partition is without a leader while a "
    "transaction ends there (a broker whose partitions have no other replica restarts). End it with "
    "kafka-transactions.sh (find-hanging, abort), compare the last rows of the job's sinks, and submit the job again"
)
_Asked = dict[TopicPartition, Future[Any]]


class Offsets:
    """Offsets for one process, from any thread.

    known: ends that the process has seen.
    """

    def __init__(self, requests: Requests, known: EndsSeen) -> None:
        self._requests = requests
        self._known = known

    def at(self, partitions: list[Partition], at: At) -> dict[Partition, int]:
        """Offsets of partitions. A time after the last record gives the end, as it was
        before the request for the time.
        """
        if at == "start":
            return self._list_offsets(partitions, _START)
        ends = self.ends(partitions)
        if at == "end":
            return ends
        found = self._list_offsets(partitions, TimestampSpec(at), _NONE_SINCE)
        return {p: ends[p] if offset == _NONE_SINCE else offset for p, offset in found.items()}

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """Start and last stable offset."""
        start, stable = self._at_once(partition, (_START, _COMMITTED), (_END, _COMMITTED))
        return start, stable

    def settled_bounds(self, partition: Partition) -> tuple[int, int]:
        """Start and last stable offset of a partition. Raises Torn if an open transaction behind the offset stays open.

        Torn is raised only after OPEN_S: a copy that was fenced, and has not noticed, sees a successor's transaction
        the same way.
        """
        deadline, first = time.monotonic() + OPEN_S, None
        while True:
            start, stable, end = self._at_once(
                partition, (_START, _COMMITTED), (_END, _COMMITTED), (_END, IsolationLevel.READ_UNCOMMITTED)
            )
            first = stable if first is None else first
            if stable == end or stable != first:
                return start, stable
            if time.monotonic() > deadline:
                raise Torn(_TORN.format(partition=partition, stable=stable, end=end))
            time.sleep(LOOK_AGAIN_S)

    def _at_once(self, partition: Partition, *ends: tuple[OffsetSpec, IsolationLevel]) -> list[int]:
        """Several ends of a partition, lowest first, in the time of one request."""
        return self._requests.follow(
            lambda left_s: [one[partition] for one in self._asked([partition], *ends, left_s=left_s)]
        )

    def ends(self, partitions: list[Partition]) -> dict[Partition, int]:
        """Last stable offsets. An end below this process's acknowledged records is accepted if the log reaches that
        far.
        """

        def ask(left_s: float) -> dict[Partition, int]:
            (stable,) = self._asked(partitions, (_END, _COMMITTED), left_s=left_s)
            if open_ones := [p for p, end in stable.items() if end < self._known.appended(p)]:
                self._asked(open_ones, (_END, IsolationLevel.READ_UNCOMMITTED), left_s=left_s)
            return stable

        return self._requests.follow(ask) if partitions else {}

    def _list_offsets(self, partitions: list[Partition], spec: OffsetSpec, least: int = 0) -> dict[Partition, int]:
        if not partitions:
            return {}
        return self._requests.follow(
            lambda left_s: self._asked(partitions, (spec, _COMMITTED), left_s=left_s, least=least)[0]
        )

    def _asked(
        self, partitions: list[Partition], *ends: tuple[OffsetSpec, IsolationLevel], left_s: float, least: int = 0
    ) -> list[dict[Partition, int]]:
        """Possible answers, by end and partition; all are requested at once, lowest end first. Raises Moved for an
        impossible answer.
        """
        asked = [self._ask_offsets(partitions, spec, isolation, left_s) for spec, isolation in ends]
        found = [self._answer_offsets(partitions, futures, least) for futures in asked]
        for partition in partitions:
            answers.bounds(partition, *(offsets[partition] for offsets in found))
        for (spec, isolation), offsets in zip(ends, found, strict=True):
            if spec is _END:
                self._compare(offsets, isolation is _COMMITTED)
        return found

    def _compare(self, ends: Mapping[Partition, int], stable: bool) -> None:
        """Compares ends with the known ends, and adds them. Raises WentBack if an end is lower."""
        known = self._known
        for partition, end in ends.items():
            least = known.stable(partition) if stable else max(known.stable(partition), known.appended(partition))
            if end < least:
                raise WentBack(partition, end, least)
            if stable:
                known.read(partition, end)

    def _ask_offsets(
        self, partitions: list[Partition], spec: OffsetSpec, isolation: IsolationLevel, left_s: float
    ) -> _Asked:
        """Requests offsets; for read_committed the end is the last stable offset."""
        return self._requests.admin.list_offsets(
            {TopicPartition(p.topic, p.index): spec for p in partitions},
            isolation_level=isolation,
            request_timeout=left_s,
        )

    def _answer_offsets(self, partitions: list[Partition], asked: _Asked, least: int) -> dict[Partition, int]:
        futures = {Partition(where.topic, where.partition): future for where, future in asked.items()}
        answers.all_of("list offsets", partitions, futures)
        return {
            p: answers.offset(p, self._requests.answer(f"list offsets of {p}", futures[p]).offset, least)
            for p in partitions
        }

    def open_end(self, partition: Partition, left_s: float) -> int:
        """The offset behind the last record, committed or not."""
        (end,) = self._asked([partition], (_END, IsolationLevel.READ_UNCOMMITTED), left_s=left_s)
        return end[partition]
