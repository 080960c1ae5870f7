"""PROTOCOL 3: that a row is skipped is a decision of the cut log, so copies with other versions of code agree or stop.

The operator raises at amounts that 19 divides; on a strict worker also at those that 13 divides, as if a library there
were another version.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from holdfast.schemas import checkpoints, cuts, events
from holdfast.schemas.assignments import Flags
from holdfast.schemas.cuts import Leads, Raised
from holdfast.schemas.decided import Id
from holdfast.schemas.frames import unpack
from holdfast.schemas.topics import Partition
from holdfast.services.audit.replay import Report, replay
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.kernel.errors import CommandFailed, Retriable
from holdfast.services.kernel.plans.layout import data_topics
from holdfast.services.worker.core import cut_trims
from holdfast.services.worker.process.loop import Worker
from holdfast.services.worker.sources import cut_trimmer
from holdfast.services.worker.unit.checkpoints import trimmer
from holdfast.services.worker.unit.user_code import raised_errors
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import Order, orders
from tests.support.raising import on

JOB = """
name: orders
keep_cuts: true
batch_interval_ms: 5
fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: CHECKPOINT}}
sources:
  orders:
    topic: orders
    fields: {shop: string, item: string, amount: int, at: timestamp}
    event_time: at
    unit: ms
    parallelism: 2
operators:
  fussy:
    python: "tests.support.raising:Fussy"
    params: {key: shop, number: amount, bad: 19, worse: 13, stricter: [STRICT], together: TOGETHER}
    key: [shop]
    input: orders
    parallelism: 1
  sums: {aggregate: {n: "count()", total: "sum(amount)", lots: "sum(lot)"}, key: [amount], input: fussy, parallelism: 2}
queries:
  fussy: {input: fussy, sink: {topic: fussy}}
  sums: {input: sums, sink: {topic: sums}}
"""
NEVER_MS = 60_000
FOLLOWS = Flags(send=False, commit=False)
"""It processes, and nothing of it leaves."""
SENDS = Flags(commit=False)
SUSPENDED = Flags(state="synced", process=False, send=False, commit=False)
UNIT = "fussy-0"


@pytest.fixture(autouse=True)
def checkpointed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a unit with outputs, which checkpoints when they are trimmed."""
    monkeypatch.setattr(trimmer, "OUTPUT_MS", 20)


def job(strict: str = "nobody", checkpoint_ms: int = 50, together: int = 0) -> str:
    return JOB.replace("STRICT", strict).replace("CHECKPOINT", f"{checkpoint_ms}").replace("TOGETHER", f"{together}")


def start(cluster: MemoryCluster, name: str) -> Worker:
    """A worker with the version of the code that its name stands for."""
    worker = cluster.start(name)
    turn = worker.turn

    def turned() -> Any:
        with on(name):
            return turn()

    worker.turn = turned  # type: ignore[method-assign]
    return worker


def begin(text: str, *standbys: tuple[str, Flags]) -> MemoryCluster:
    """w1 leads all units; of the one whose code raises the others are copies, too."""
    cluster = MemoryCluster(text)
    first = start(cluster, "w1")
    placed: dict[str, list[Any]] = {unit: [first] for unit in cluster.units}
    assert UNIT in placed
    assert len(placed) > 2, "frames go out of that unit"
    placed[UNIT] += [(start(cluster, name), flags) for name, flags in standbys]
    cluster.place(placed)
    return cluster


def load(cluster: MemoryCluster, fed: list[Order], turns: int = 6) -> None:
    for index in range(0, len(fed), 10):
        for number, order in enumerate(fed[index : index + 10]):
            cluster.feed("orders", [order], number % 2)
        cluster.turn(turns)


def lead(cluster: MemoryCluster, worker: Worker, others: bool = True) -> None:
    cluster.place({unit: [worker] for unit in cluster.units if others or unit == UNIT})


def without_bad(fed: list[Order]) -> list[Order]:
    """What code raises at only where it is strict."""
    return [order | {"amount": order["amount"] % 19 or 1} for order in fed]


def records(cluster: MemoryCluster) -> list[Any]:
    return [cuts.decode(m.value() or b"") for m in cluster.log.scan(Partition(cluster.topics.cuts, 0))]


def raised(cluster: MemoryCluster) -> list[Raised]:
    return [record for record in records(cluster) if isinstance(record, Raised)]


def replayed(cluster: MemoryCluster) -> Report:
    return replay(cluster.log, cluster.cluster, "orders")


def refused(cluster: MemoryCluster) -> Counter[int]:
    return Counter(msgspec.json.decode(letter.row)["amount"] for letter in cluster.dead_letters())


def check(cluster: MemoryCluster, fed: list[Order]) -> None:
    """Each order is a row or a dead letter, once; sums and numbers are those of the rows; a replay says the same."""
    rows = cluster.rows("fussy")
    assert Counter(row["amount"] for row in rows) + refused(cluster) == Counter(order["amount"] for order in fed)
    for shop in "abc":
        assert sorted(row["nth"] for row in rows if row["shop"] == shop) == list(
            range(1, 1 + sum(row["shop"] == shop for row in rows))
        )
    newest = {row["amount"]: (row["n"], row["total"], row["lots"]) for row in cluster.rows("sums")}
    for amount, (n, total, lots) in newest.items():
        own = [row["lot"] for row in rows if row["amount"] == amount]
        assert (n, total, lots) == (len(own), amount * len(own), sum(own))
    hashes: dict[object, set[int]] = {}
    for topic, count in data_topics(cluster.plan).items():
        for partition in (Partition(topic, index) for index in range(count)):
            for message in cluster.log.scan(partition):
                header = unpack(message.value() or b"")
                key = (partition, header.writer, header.batch, header.part)
                hashes.setdefault(key, set()).add(header.payload_hash)
    assert all(len(some) == 1 for some in hashes.values())
    report = replayed(cluster)
    assert (report.exact, report.differences) == (True, [])


def failure(cluster: MemoryCluster) -> str:
    """Runs until a copy has failed."""

    def failed() -> list[str]:
        return [copy.error for one in cluster.workers.values() for copy in one.copies() if copy.state == "failed"]

    cluster.until(lambda: bool(failed()))
    return failed()[0]


def rebuilds(cluster: MemoryCluster) -> list[str]:
    found = (events.decode(m.value() or b"") for m in cluster.log.scan(Partition(cluster.cluster.events, 0)))
    return [event.detail for event in found if event.kind == "copy-rebuilds" and event.unit == UNIT]


class Held:
    """What a worker appends to the cut log of some kind does not arrive before `release`."""

    def __init__(self, worker: Worker, *kinds: type) -> None:
        appender = worker._appender
        self._append, self._kinds = appender.append, kinds
        self.waiting: list[Callable[[], None]] = []
        appender.append = self.append  # type: ignore[method-assign]

    def append(self, partition: Partition, value: bytes | None, **rest: Any) -> None:
        if partition.topic.endswith(".cuts") and isinstance(cuts.decode(value or b""), self._kinds):
            self.waiting.append(partial(self._append, partition, value, **rest))
        else:
            self._append(partition, value, **rest)

    def release(self) -> None:
        self._kinds = ()
        for arrive in self.waiting:
            arrive()


def test_a_leader_announces_itself_and_what_is_skipped_stands_in_the_cut_log() -> None:
    fed = orders(300)
    cluster = begin(job(together=4))
    load(cluster, fed)
    cluster.run_to_end()
    check(cluster, fed)
    assert refused(cluster) == Counter(order["amount"] for order in fed if order["amount"] % 19 == 0)
    said = records(cluster)
    (announced,) = [record for record in said if isinstance(record, Leads)]
    assert (announced.unit, announced.epoch) == (UNIT, 1)
    found = raised(cluster)
    assert found
    assert {one.lead for one in found} == {announced.id}
    assert {letter.batch for letter in cluster.dead_letters()} <= {one.batch for one in found}
    assert any(rows.reason < 0 for one in found for task in one.tasks.values() for rows in task.rows)


def test_a_job_without_such_code_writes_nothing_of_it() -> None:
    fed = orders(60)
    cluster = begin(job() + "on_error: fail\n".replace("fail", "retry"))
    load(cluster, [order for order in fed if order["amount"] % 19])
    cluster.run_to_end()
    assert not [record for record in records(cluster) if isinstance(record, Leads | Raised)]


@pytest.mark.parametrize(("strict", "flags"), [("w1", FOLLOWS), ("w2", FOLLOWS), ("w1", SUSPENDED), ("w2", SUSPENDED)])
def test_another_version_follows_what_is_decided_and_decides_once_it_leads(strict: str, flags: Flags) -> None:
    """Whether the leader's code raises where the other's does not, or the other way round."""
    fed = orders(500) if strict == "w1" else without_bad(orders(500))
    cluster = begin(job(strict), ("w2", flags))
    load(cluster, fed[:250])
    cluster.turn(300)
    before = refused(cluster)
    assert (before[13] > 0) is (strict == "w1")
    cluster.kill("w1")
    lead(cluster, cluster.workers["w2"])
    load(cluster, fed[250:])
    cluster.run_to_end()
    check(cluster, fed)
    assert (refused(cluster) - before)[13] > 0 or strict == "w1"
    if flags is FOLLOWS and strict == "w1":
        assert any("as if its code had not raised" in cause for cause in rebuilds(cluster))
    if flags is FOLLOWS and strict == "w2":
        assert any("its unit has left it behind" in cause for cause in rebuilds(cluster))


def test_a_standby_whose_code_raises_at_more_rows_than_the_log_says_stops() -> None:
    cluster = begin(job("w2"), ("w2", FOLLOWS))
    load(cluster, orders(200))
    assert re.search(r"Fussy, batch \d+: raised at rows \d+ to \d+: ValueError: 13 is refused", failure(cluster))


def test_batches_that_raised_and_were_delivered_are_skipped_by_a_successor_whose_code_does_not_raise() -> None:
    """It restores from before these batches: no checkpoint holds them."""
    fed = orders(200)
    cluster = begin(job("w1", checkpoint_ms=NEVER_MS))
    load(cluster, fed[:100], turns=6)
    assert refused(cluster)[13]
    cluster.kill("w1")
    lead(cluster, start(cluster, "w2"))
    load(cluster, fed[100:])
    cluster.run_to_end()
    check(cluster, fed)


def test_code_that_raises_at_what_its_former_leader_has_delivered_stops_the_job() -> None:
    fed = orders(100)
    cluster = begin(job("w2", checkpoint_ms=NEVER_MS))
    load(cluster, fed, turns=6)
    assert cluster.rows("fussy")
    cluster.kill("w1")
    lead(cluster, start(cluster, "w2"))
    said = failure(cluster)
    assert re.search(r"code raised in batch \d+, which has left as if|Fussy, batch \d+: raised at rows \d+ to", said)
    assert "same versions" in said


def test_frames_that_a_standby_has_sent_as_if_nothing_had_raised_stop_the_job() -> None:
    """Under an active scheme it may be ahead of the leader, and nobody can take back what readers have."""
    cluster = begin(job("w1"), ("w2", SENDS))
    load(cluster, orders(200))
    assert re.search("as if its code had not raised|twice, with different rows", failure(cluster))


def test_a_record_that_arrives_behind_the_successor_s_announcement_is_void() -> None:
    """The leader was frozen with the record in hand; its successor has delivered the batch as its own code does it."""
    fed = without_bad(orders(200))
    cluster = begin(job("w1", checkpoint_ms=NEVER_MS))
    late = Held(cluster.workers["w1"], Raised)
    load(cluster, fed[:100])
    assert late.waiting
    assert not cluster.dead_letters()
    frozen = cluster.workers.pop("w1")
    lead(cluster, start(cluster, "w2"))
    load(cluster, fed[100:130])
    cluster.turn(50)
    assert cluster.rows("fussy")
    late.release()
    frozen.close()
    load(cluster, fed[130:160])
    cluster.kill("w2")  # who restores from here on reads both
    lead(cluster, start(cluster, "w3"))
    load(cluster, fed[160:])
    cluster.run_to_end()
    check(cluster, fed)
    assert not refused(cluster)[13]


def test_a_record_that_arrives_before_it_counts_and_the_successor_begins_again() -> None:
    """It has done the batch otherwise, and holds what came of it until its announcement is read back."""
    fed = without_bad(orders(200))
    cluster = begin(job("w1", checkpoint_ms=NEVER_MS), ("w2", FOLLOWS))
    late = Held(cluster.workers["w1"], Raised)
    load(cluster, fed[:100])
    assert late.waiting
    own = Held(cluster.workers["w2"], Leads)
    del cluster.workers["w1"]
    lead(cluster, cluster.workers["w2"])
    cluster.turn(60)
    assert own.waiting
    batches = {copy.unit.split("/")[1]: copy.batch for copy in cluster.workers["w2"].copies()}
    late.release()
    first = raised(cluster)[0].batch
    assert batches[UNIT] >= first, "it has done that batch"
    own.release()
    load(cluster, fed[100:])
    cluster.run_to_end()
    check(cluster, fed)
    assert first in {letter.batch for letter in cluster.dead_letters()}
    assert any("as if its code had not raised" in cause for cause in rebuilds(cluster))


def test_nothing_leaves_a_leader_that_has_not_read_its_announcement() -> None:
    fed = without_bad(orders(100))
    cluster = begin(job())
    held = Held(cluster.workers["w1"], Leads)
    load(cluster, fed)
    cluster.turn(100)
    reached = {copy.unit.split("/")[1]: copy.batch for copy in cluster.workers["w1"].copies()}
    assert (reached["sums-0"], reached[UNIT] > 0) == (0, True)
    assert not cluster.rows("fussy")
    assert not cluster.dead_letters()
    held.release()
    cluster.run_to_end()
    check(cluster, fed)


@pytest.mark.parametrize("kind", [Leads, Raised])
def test_a_record_that_kafka_loses_is_written_again(kind: type) -> None:
    fed = orders(100)
    cluster = begin(job())
    held = Held(cluster.workers["w1"], kind)
    load(cluster, fed)
    assert held.waiting
    lost = held.waiting.pop(0)
    lost.keywords["done"](Retriable("it may be lost"), -1)  # type: ignore[attr-defined]
    held.release()
    cluster.run_to_end()
    check(cluster, fed)
    lost()  # it is in the log after all
    assert replayed(cluster).exact


def test_a_checkpoint_whose_author_did_not_follow_the_log_stops_the_unit() -> None:
    """Its marker is valid, and its state is not what the log says: a zombie's, whose code did not raise."""
    cluster = begin(job())
    unit = next(one for one in cluster.plan.units if one.name == UNIT)
    where, batch, last = Partition(cluster.topics.checkpoints, unit.partition), 0, None
    while last is None or batch <= last.b:  # until the last batches are in no checkpoint
        assert batch < 100
        load(cluster, orders(50, batch))
        fold = CheckpointLog()
        for message in cluster.log.scan(where):
            fold.read(message.offset(), checkpoints.decode(message.value() or b""))
        batch, last = raised(cluster)[-1].batch, fold.last
    marker = msgspec.structs.replace(last, id=Id("zombie", 1), prev=last.id, parts=0, a=last.b, b=batch)
    cluster.log.appender("zombie").append(where, checkpoints.encode(marker))
    assert f"at batch {batch} was written as if no code had raised in batch" in failure(cluster)


def test_records_of_a_trimmed_cut_log_are_enough_for_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a unit that reads no source: the log is trimmed only up to where its checkpoint reads on."""
    for module, name, value in (
        (cut_trims, "FEWEST_RECORDS", 4), (cut_trims, "RECORDS_A_TASK", 0), (cut_trims, "SHORTEST_MS", 20),
        (cut_trimmer, "LOOK_MS", 20),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    fed = orders(600)
    cluster = begin(job().replace("keep_cuts: true", "replay_horizon_s: 0"))
    where = Partition(cluster.topics.cuts, 0)
    for number in range(6):
        load(cluster, fed[number * 100 : number * 100 + 100])
        name = f"w{1 + (number + 1) % 2}"
        cluster.workers.clear()
        lead(cluster, start(cluster, name))
        cluster.turn(100)
    assert cluster.log.offsets([where], "start")[where] > 0
    cluster.run_to_end()
    rows = cluster.rows("fussy")
    assert Counter(row["amount"] for row in rows) + refused(cluster) == Counter(order["amount"] for order in fed)
    for shop in "abc":
        own = sorted(row["nth"] for row in rows if row["shop"] == shop)
        assert own == list(range(1, len(own) + 1))


def test_a_batch_at_which_too_much_raises_fails_the_job_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raised_errors, "MAX_RECORD_BYTES", 150)
    cluster = begin(job())
    cluster.feed("orders", [order | {"amount": 19 * n} for n, order in enumerate(orders(30))])
    said = failure(cluster)
    assert re.search(r"its code raises at so many rows that the record of them takes [\d,]+ bytes, more than 150", said)
    assert "on_error: fail" in said
    assert "dead_letter_share" in said


def test_a_replay_with_another_version_follows_the_log_or_names_where_it_disagrees() -> None:
    fed = orders(100)
    lenient, strict = begin(job("w1")), begin(job("elsewhere"))
    for cluster in (lenient, strict):
        load(cluster, fed)
        cluster.run_to_end()
        assert replayed(cluster).exact
    assert refused(lenient)[13], "code that does not raise here has raised there"
    with on("elsewhere"), pytest.raises(CommandFailed, match=r"Fussy, batch \d+: raised at rows \d+ to \d+") as failed:
        replayed(strict)
    assert "replay with the code and the libraries that the job had" in failed.value.hint
