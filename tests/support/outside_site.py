"""A unit that delivers to a place outside Kafka and to a topic of the log in memory, and copies that are killed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import polars as pl
import pytest

from holdfast.schemas.dead_letters import DeadLetter, decode
from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.hosting.blocking_calls import Inline
from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.dataflow.unit import SinkRows
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.log.memory import MemoryLog
from holdfast.services.worker.core.spent import Spent
from holdfast.services.worker.sinks.delivery import Delivery, History
from holdfast.services.worker.sinks.meter import Meter
from holdfast.services.worker.sinks.outside_kafka import OutsideKafka
from holdfast.services.worker.sinks.portions import Batch
from holdfast.services.worker.sinks.position import Positions
from holdfast.services.worker.sinks.refusals import Refusals
from holdfast.services.worker.sinks.unit_sinks import UnitSinks

TOPICS = ClusterTopics().job("job", "0-abcdef")
FIELDS = {"n": "int", "carrier": "string?"}
BATCHES = range(1, 6)
ODD = 'A"A/B %'
"""A text with signs that names of folders and statements must quote."""


class Killed(BaseException):
    """The process is gone, in the middle of what it did."""


def layout(name: str, params: dict[str, Any], fields: dict[str, str] | None = None) -> TaskLayout:
    params = {"query": name, "topic": "", "partitions": 1, **params}
    operator = OperatorPlan(f"sink-{name}", "sink", 1, ("s",), params, fields or FIELDS)
    return TaskLayout(f"sink-{name}-0", 0, operator, (), (), (), None)


def rows_of(number: int) -> pl.DataFrame:
    """The rows of a batch: a function of its number. Every third has none."""
    count = 3 if number % 3 else 0
    rows = {"n": [10 * number + one for one in range(count)], "carrier": ["UA", ODD, None][:count]}
    return pl.DataFrame(rows, schema=schema(FIELDS))


EXPECTED = sorted(one for number in BATCHES for one in rows_of(number)["n"].to_list())


class Steps:
    """Counts the steps of a process, and kills it before or behind one of them."""

    def __init__(self, number: int) -> None:
        self.done, self._number, self.killed = list[str](), number, False

    def take(self, name: str, call: Callable[..., Any], *args: Any, **given: Any) -> Any:
        found: Any = None
        for when in ("before", "behind"):
            if len(self.done) == self._number:
                self.killed = True
                raise Killed(f"{when} {name}")
            self.done.append(f"{when} {name}")
            found = call(*args, **given) if when == "before" else found
        return found

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **given: self.take(call.__name__, call, *args, **given)


class OutsideSite(ABC):
    """A unit with a sink outside Kafka, and one of a topic, whose copies follow each other."""

    def __init__(self, of_outside: TaskLayout) -> None:
        self.tasks = [of_outside, layout("t", {"topic": "out"})]
        self.log, self.beside = MemoryLog(lambda: 0), Inline()
        self.log.create([TopicSpec("out"), TopicSpec(TOPICS.dead_letters), TopicSpec(TOPICS.delivered)])
        self.errors: list[Exception] = []
        self.spent, self.now_ms, self.refusals = Spent(), 0.0, Refusals()

    @abstractmethod
    def outside(self) -> OutsideKafka:
        """The place of the first sink."""

    @abstractmethod
    def numbers(self) -> list[int]:
        """Column n of all that a reader of the place finds, sorted."""

    @abstractmethod
    def patch(self, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
        """Makes steps of the calls that change something. The result does what the system does for a dead process."""

    def left(self) -> list[str]:
        """Names of what lies in the place and is not the reader's."""
        return []

    def copy(self, dead_letters: bool = True, opened: bool = True) -> Delivery:
        """A copy that has opened its outputs, and fenced earlier copies; or a standby, prepared to open them."""
        at = Partition(TOPICS.delivered, 0)
        positions = Positions(self.log, "u", at, Partition(TOPICS.cuts, 0), (), lambda: 100, lambda *_: None)
        meter = Meter(self.spent, lambda: self.now_ms, lambda: 0.0)
        sinks = UnitSinks(TOPICS, "u", dead_letters=dead_letters, outside=self.outside())
        made = Delivery(
            self.log, self.beside, sinks, positions,
            failed=self.errors.append, meter=meter, history=History(self.refusals),
        )  # fmt: skip
        if opened:
            made.open(lambda _: None)
        else:
            made.prepare()
        self.beside.poll()
        return made

    def deliver(self, copy: Delivery, *numbers: int, rows: Callable[[int], pl.DataFrame] = rows_of) -> None:
        copy.deliver(*(Batch(one, [SinkRows(task, rows(one), 0) for task in self.tasks], []) for one in numbers))
        while self.beside.poll():
            pass

    def frozen(self, target: Any, call: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
        """A copy that stops at a call while it delivers two batches, as one that is thought dead; the result continues
        from there."""
        late, resumed, true = self.copy(), list[Callable[[], Any]](), getattr(target, call)

        def freeze(*args: Any) -> Any:
            resumed.append(partial(true, *args))
            raise Killed

        with monkeypatch.context() as patched:
            patched.setattr(target, call, freeze)
            with pytest.raises(Killed):
                self.deliver(late, *BATCHES[:2])
        self.beside = Inline()
        return resumed[0]

    def letters(self) -> list[DeadLetter]:
        return [decode(one.value() or b"") for one in self.log.scan(Partition(TOPICS.dead_letters, 0))]


def killed_everywhere(site_of: Callable[[int], OutsideSite], monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills a copy before and behind every step, each time on a new site, and lets another one deliver the same
    batches: each is there once."""
    steps = Steps(0)
    for number in range(500):
        site, steps = site_of(number), Steps(number)
        copy = site.copy()
        with monkeypatch.context() as patched:
            gone = site.patch(steps, patched)
            try:
                site.deliver(copy, *BATCHES[:2])
                site.deliver(copy, *BATCHES[2:4])
            except Killed:
                assert steps.killed
            gone()
        site.beside = Inline()
        site.deliver(site.copy(), *BATCHES)
        assert (site.errors, site.numbers(), site.left()) == ([], EXPECTED, []), steps.done[-1:]
        assert len(list(site.log.scan(Partition("out", 0)))) == len(EXPECTED)
        if not steps.killed:
            break
    assert len(steps.done) > 15
