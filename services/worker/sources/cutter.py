"""Makes cuts for a unit's source tasks: reads the job's cut log, proposes due cuts, and keeps positions for restarts.

Source: PROTOCOL 3. core/cut_rhythm.py decides when a cut is due.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import partial

import msgspec

from holdfast.schemas import cuts
from holdfast.schemas.assignments import Flags
from holdfast.schemas.cuts import Answered, Cut, CutRecord, CutsSnapshot, Raised, Range, Replaced, Snapshot
from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.cuts import of_plan
from holdfast.services.kernel.errors import TopicChanged, Unreachable
from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.worker.checkpoint.restore import Rebuilt
from holdfast.services.worker.core import cut_rhythm
from holdfast.services.worker.core.cut_rhythm import REST_AFTER_MS, Lead, SourceView, due, wait_ms
from holdfast.services.worker.core.pace import Pace
from holdfast.services.worker.core.restarts import Restarts
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.surroundings import HostServices
from holdfast.services.worker.sources.arrivals import Arrivals
from holdfast.services.worker.sources.feed import Feed
from holdfast.services.worker.sources.feeds import feed_of, table_tasks
from holdfast.services.worker.sources.missing_records import lost
from holdfast.services.worker.sources.replaced import TopicGuard, gone, stopped
from holdfast.services.worker.sources.silences import Silences
from holdfast.services.worker.sources.user_topic import SourceFeed

_GROWN_TABLE = (
    "topic {topic} of a table has grown from {planned} to {now} partitions: rows of one key may lie in two of them, "
    "and nobody knows which is newer. Submit the job again, with a topic into which the table was written again"
)


class Cutter:
    """The cut log as this copy reads it, and the feeds of its source tasks. Until the copy has read the log up to its
    end at the start, records of a source may be from a topic that was created again. log: the cut log, as far as it is
    read. rewired: True if the inputs of a feed have changed since it was set to False. raised, answered: valid records
    for the unit's code that are not processed yet. arrivals: arrivals of its batches."""

    def __init__(self, job: JobView, layout: UnitLayout, rebuilt: Rebuilt, around: HostServices) -> None:
        self._job = job
        self._unit = layout.unit.name
        self._around = around
        self._follows = self._unit in job.reading_units
        self._partition, marker = Partition(job.topics.cuts, 0), rebuilt.marker
        known = None if marker is None else marker.cuts
        own = [task.name for task in layout.tasks if task.source is not None]
        self.log = of_plan(job.plan, known, own, job.skipped.get(self._partition, ()), rebuilt.cuts_base)
        self._until = rebuilt.cuts_end
        self.rewired = False
        self.raised = list[Raised]()
        self.answered = list[Answered]()
        self._tables = frozenset(table_tasks(job))
        batch = 0 if marker is None else marker.b
        self.feeds = {
            task.name: feed_of(job, task, self.log.task(task.name), batch, around)
            for task in layout.tasks
            if task.source is not None
        }
        self._users = {name: feed for name, feed in self.feeds.items() if isinstance(feed, SourceFeed)}
        self._guard = TopicGuard({_source(feed): _topic(feed) for feed in self._users.values()})
        for feed in self._users.values():
            feed.resumes = self._rewire
            if _source(feed) in self.log.replaced:
                feed.stop(keep=False)
        self._restarts = Restarts()
        self._leads = {name: Lead() for name in self.feeds}
        budget_ms = job.plan.settings.latency_ms
        self._paces = {name: Pace(job.rhythm, budget_ms, stretches=job.stretches) for name in self.feeds}
        self._deciding = set[str]()
        self._silences = Silences(job, self.log, self._tables, around)
        self.wait_ms = math.inf  # milliseconds until time alone makes a cut due
        self._stirred_ms = around.clock_ms()
        self.arrivals = Arrivals(around.time_ms)

    def positions(self) -> dict[Partition, int]:
        """The position in the cut log; empty for units that do not read it."""
        return {self._partition: self.log.upto} if self._follows else {}

    def reads(self, partition: Partition) -> bool:
        return partition == self._partition

    def done(self) -> list[tuple[str, str, dict[int, int]]]:
        """(source, topic, next offset by partition) of each users' topic that is read, from any thread."""
        return [(_source(feed), _topic(feed), feed.done()) for feed in self._users.values()]

    def users_topics(self) -> dict[str, tuple[str, str]]:
        """(source, topic) by source task, for tasks that read a user's topic."""
        return {name: (_source(feed), _topic(feed)) for name, feed in self._users.items()}

    @property
    def deciding(self) -> bool:
        """True if a proposal has not been read back."""
        return bool(self._deciding)

    @property
    def caught_up(self) -> bool:
        """True if the cut log is read up to its end at the start of the copy."""
        return not self._follows or self.log.upto >= self._until

    @property
    def stopped(self) -> str:
        """The reason why no cut is valid although the job is not paused; empty if there is none."""
        return stopped(self._job.plan.job, self.log.replaced, self.log.tasks)

    @property
    def waits(self) -> str:
        """A text about missing topics and records that wait; empty if nothing is missing."""
        absent = gone({_source(feed): _topic(feed) for feed in self._users.values()}, self._around.topics)
        kept_out = {f"source {_source(feed)} waits: {feed.waits}" for feed in self._users.values() if feed.waits}
        return "; ".join(filter(None, [absent, *sorted(kept_out)]))

    def is_read(self, topic: str, id: str) -> bool:
        """True if this is the topic that the job reads under that name, as far as known."""
        known = [self.log.known(_source(feed)) for feed in self._users.values() if _topic(feed) == topic]
        return all(not ids or ids[-1] == id for ids in known)

    def read(self, offset: int, value: bytes, done: int) -> None:
        """Reads a record of the cut log. A record that cannot be decoded is as invalid as one that does not fit.

        Args:
            done: last batch that the unit has processed.
        """
        try:
            record = cuts.decode(value)
        except msgspec.DecodeError as error:
            self._around.refusals.refuse(self._partition, offset, error, self._job.plan.job)
            return
        feed = self.feeds.get(record.task) if isinstance(record, Cut) else None
        if isinstance(record, Cut) and record.batch > done and (feed is not None or not self.feeds):
            self._restarts.cut(record.batch, self.log.snapshot)
        before = set(self.log.replaced)
        valid = self.log.read(offset, record)
        self._look(record, valid)
        if feed is None or not isinstance(record, Cut):
            if valid and isinstance(record, Raised) and record.unit == self._unit:
                self.raised.append(record)
            elif isinstance(record, Answered) and record.unit == self._unit:
                self.answered.append(record)
            elif valid and isinstance(record, Replaced):
                self._stop(record.operator, keep=offset >= self._until)
            elif valid:
                self._begin(before - self.log.replaced.keys())
            return
        if valid:
            self.arrivals.cut(record.task, record.time_ms)
            self.rewired |= any(r.partition not in feed.positions() for r in record.ranges)
            self._leads[record.task].cut(record.batch, feed.weight(record))
            feed.read_cut(record, self._around.clock_ms())
        if valid or self._around.author.wrote(record.id):
            self._deciding.discard(record.task)

    def arrived(self) -> tuple[int, int]:
        """The arrival of the slowest batch; see schemas/progress.py."""
        for name, feed in () if self._deciding else self.feeds.items():
            if feed.records:
                self.arrivals.waits(name, self.log.task(name).batch + 1, feed.oldest_ms)
        return self.arrivals.slowest

    def skip(self, batch: int) -> None:
        """Continues behind a batch that another copy has done."""
        for feed in self.feeds.values():
            feed.skip(batch)
        self.forget(batch)

    def forget(self, batch: int) -> None:
        """Drops restart positions before a batch with a valid marker."""
        self._restarts.forget(batch)

    def release(self) -> None:
        """Drops the proposals under way, because this copy has lost commit or has got it again."""
        self._deciding.clear()
        self._guard.release()
        self._stirred_ms = self._around.clock_ms()

    def as_of(self, batch: int) -> CutsSnapshot | None:
        """The cut log at which a restart continues; None for a unit that does not read it."""
        return self._restarts.as_of(batch, self.log.snapshot()) if self._follows else None

    def propose(self, now_ms: float) -> None:
        """Appends every due cut, or none once a topic was created again. Sets wait_ms."""
        for record in self._guard.look(self.log, self._around.topics, now_ms):
            self._around.appender.append(self._partition, cuts.encode(record))
            self._publish("topic-replaced", stopped(self._job.plan.job, {record.operator: record}, self.log.tasks))
        self.wait_ms = math.inf
        for name, feed in self.feeds.items():
            self._silences.ask(feed, now_ms)
            if name in self._deciding:
                continue
            view, pace = self._view(feed, now_ms), self._paces[name]
            pace.processed(view.slowest, now_ms)
            rhythm = pace.rhythm
            if due(view, rhythm) is None:
                self.wait_ms = min(self.wait_ms, wait_ms(view, rhythm))
            else:
                pace.proposed(view.batch + 1, now_ms)
                self._append(name, feed, now_ms)

    def wanted_ms(self, flags: Flags, looked_ms: float) -> float:
        """The time at which records of an on-demand topic are needed, which was last read at `looked_ms`."""
        if not self._users:
            return math.inf
        if flags.process and any(feed.missing(feed.batch + 1) for feed in self._users.values()):
            return looked_ms + cut_rhythm.MISSING_LOOK_MS
        if not flags.commit or self._deciding:
            return looked_ms + cut_rhythm.STANDBY_LOOK_MS
        return min(
            max(feed.last_cut_ms, looked_ms if feed.last_cut_ms + interval_ms <= looked_ms else 0.0) + interval_ms
            for name, feed in self._users.items()
            for interval_ms in [self._paces[name].rhythm.interval_ms]
        )

    def _publish(self, kind: str, detail: str) -> None:
        self._around.happened(Event(time_ms=self._around.time_ms(), kind=kind, job=self._job.plan.job, detail=detail))

    def _held(self, name: str) -> bool:
        """True if a source task must add nothing to its next batch yet, because a table of the job is not complete. So
        the entries that a join finds in a batch follow from the cut log alone, and no operator holds rows back."""
        if not self._tables or name in self._tables:
            return False
        since = self.log.loaded(self._tables)
        return since is None or self.log.task(name).batch + 1 < since

    def _view(self, feed: Feed, now_ms: float) -> SourceView:
        state, ends, held = self.log.task(feed.task.name), self._ends(feed), self._held(feed.task.name)
        newest, records = self.log.newest_batch, feed.records
        slowest = self._job.slowest(self._unit, newest, now_ms, self._around.presence)
        return SourceView(
            batch=state.batch,
            newest=newest,
            slowest=slowest,
            records=0 if held else records,
            bytes=0 if held else feed.bytes,
            last_ms=feed.last_cut_ms,
            now_ms=now_ms,
            stirred_ms=self._stirred_ms,
            settled=now_ms - self._stirred_ms >= REST_AFTER_MS and self._silences.settled(feed, now_ms),
            paused=not self.log.admits(state.batch + 1) or self._guard.proposed(feed.task.operator.name),
            final=state.final,
            at_end=ends is not None and not held and feed.at_end(ends),
            grown=not held and bool(self._joining(feed, ends, now_ms)),
            lead=self._leads[feed.task.name].behind(slowest),
            full=self._job.bound.reached(self._job.progress.values(), now_ms),
        )

    def _joining(self, feed: Feed, ends: Mapping[int, int] | None, now_ms: float) -> tuple[Range, ...]:
        """New partitions of the feed's topic, for its next cut. A drain names the last ones that are read.

        Raises TopicChanged when the topic of a table has grown.
        """
        name, source = feed.task.name, feed.task.source
        if source is None or name not in self._users:
            return ()
        if ends is not None:
            return self.log.joining(name, max(ends, default=-1) + 1)
        topic = self._around.topics.of(source.topic, now_ms)
        if topic is None or not self.is_read(source.topic, topic.id):
            return ()
        planned = self.log.partitions(feed.task.operator.name)
        if name in self._tables and topic.partitions > planned:
            raise TopicChanged(_GROWN_TABLE.format(topic=source.topic, now=topic.partitions, planned=planned))
        return self.log.joining(name, topic.partitions)

    def _stop(self, source: str, keep: bool) -> None:
        """Stops a source whose topic was replaced; while the job drains, the source ends there."""
        self.rewired = True
        self._guard.release()
        for feed in self._users.values():
            if _source(feed) == source:
                feed.stop(keep)
        if self.log.ends is not None:
            self._begin({source})

    def _begin(self, sources: Collection[str]) -> None:
        """Continues sources with replaced topics at the positions in the cut log, or ends them where they are."""
        for name, feed in self._users.items():
            if _source(feed) in sources:
                self.rewired = True
                feed.begin(self.log.task(name), self.log.ends is None, self._around.clock_ms())
                self._deciding.discard(name)

    def _rewire(self) -> None:
        self.rewired = True

    def _look(self, record: CutRecord, valid: bool) -> None:
        """Updates the time of the next empty cut from a record of the log."""
        empty = isinstance(record, Cut) and not any(r.stop > r.start for r in record.ranges)
        if valid and not empty and not isinstance(record, Snapshot):
            self._stirred_ms = self._around.clock_ms()
            if isinstance(record, Cut):
                self._job.spaces(record.batch, self._stirred_ms)
            for feed in self.feeds.values() if isinstance(record, Cut) else ():
                if feed.idling is not None:
                    feed.idling.stirred(self._stirred_ms)

    def _ends(self, feed: Feed) -> dict[int, int] | None:
        return None if self.log.ends is None else self.log.ends.get(feed.task.name, {})

    def _append(self, name: str, feed: Feed, now_ms: float) -> None:
        rhythm, before, joining = self._job.rhythm, self.log.task(name), tuple[Range, ...]()
        oldest_ms = feed.oldest_ms
        if self._held(name):
            ranges, final = tuple(Range(r.partition, r.stop, r.stop, r.newest_us) for r in before.ranges), False
        else:
            ends = self._ends(feed)
            joining = self._joining(feed, ends, now_ms)
            ranges, final = feed.propose(before.batch + 1, rhythm.max_records, rhythm.max_bytes, ends)
        if (what := lost(feed.task.source, ranges)) and not feed.continues:
            raise Unreachable(f"{what}. Submit the job again; with `on_data_loss: continue` they count as lost")
        cut = Cut(
            task=name,
            batch=before.batch + 1,
            ranges=(*ranges, *joining),
            watermark=max(before.watermark, feed.watermark(ranges, now_ms)),
            id=self._around.author.next(),
            prev=before.last,
            idle=feed.idle(now_ms),
            final=final and not joining,
            time_ms=self._around.time_ms(),
            unknown=feed.unknown(before.batch + 1) if any(r.stop > r.start for r in ranges) else (),
        )
        if any(r.stop > r.start for r in ranges):
            self.arrivals.batch(name, cut.batch, oldest_ms)
        self._deciding.add(name)
        self._around.appender.append(self._partition, cuts.encode(cut), done=partial(self._appended, name))
        if what:
            self._publish("records-lost", f"{what}: they count as lost")

    def _appended(self, name: str, error: Exception | None, _: int) -> None:
        """Makes a cut again if Kafka may have lost it. If the first one is in the log after all, the log decides."""
        if error is not None:
            self._deciding.discard(name)


def _source(feed: Feed) -> str:
    return feed.task.operator.name


def _topic(feed: Feed) -> str:
    assert feed.task.source is not None
    return feed.task.source.topic
