"""PROTOCOL 14.2: what a job delivers is a function of its cut log; `holdfast replay` finds every row that is not."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas import plans
from holdfast.schemas.topics import Partition
from holdfast.services.audit.comparison import Counts
from holdfast.services.audit.recomputation import SETTLE_EVERY
from holdfast.services.audit.replay import Report, replay
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.kernel.operators.user_code import CodeUnavailable
from holdfast.services.log.memory_records import MemoryMessage
from holdfast.services.planning.loader import load
from tests.scenario.test_contract_example import JOB as CONTRACT_JOB
from tests.scenario.test_contract_example import flights, weather
from tests.support.examples import examples
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB, orders

Tamper = Callable[[list[MemoryMessage]], list[MemoryMessage]]


def replayed(cluster: MemoryCluster, first_batch: int = 1) -> Report:
    return replay(cluster.log, cluster.cluster, "orders", first_batch=first_batch)


def running(kills: list[tuple[int, str]], seed: int = 0) -> MemoryCluster:
    """The job on three workers, some killed and started again; bad records come with the orders."""
    fed = orders(240, seed)
    cluster = MemoryCluster(JOB)
    workers = {name: cluster.start(name) for name in ("w1", "w2", "w3")}
    homes = {unit: f"w{i % 3 + 1}" for i, unit in enumerate(cluster.units)}
    cluster.place({unit: [workers[name]] for unit, name in homes.items()})
    steps = [*kills, *[(40, "")] * (8 - len(kills))]
    for number, (turns, victim) in enumerate(steps):
        chunk = fed[number * 30 : number * 30 + 30]
        for partition in (0, 1):
            cluster.feed("orders", [*chunk[partition::2], b"{not json"], partition)
        cluster.turn(turns)
        if victim:
            cluster.kill(victim)
            workers[victim] = cluster.start(victim)
            cluster.place({unit: [workers[victim]] for unit, name in homes.items() if name == victim})
    return cluster


def fullest(cluster: MemoryCluster, topic: str) -> list[MemoryMessage]:
    """What the partition of a topic that holds most has stored."""
    count = cluster.log.topics()[topic]
    return max((cluster.log.stored(Partition(topic, index)).messages for index in range(count)), key=len)


def tamper(cluster: MemoryCluster, topic: str, change: Tamper) -> None:
    """Makes of a topic's records others, with offsets as they come."""
    messages = fullest(cluster, topic)
    messages[:] = [
        MemoryMessage(offset, m.timestamp()[1], m.value(), m.key(), m.headers())
        for offset, m in enumerate(change(list(messages)))
    ]


def told(message: MemoryMessage) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes]] | None]:
    return message.value(), message.key(), message.headers()


def changed(message: MemoryMessage) -> MemoryMessage:
    value = (message.value() or b"").replace(b":", b": ", 1)
    return MemoryMessage(message.offset(), message.timestamp()[1], value, message.key(), message.headers())


def test_an_undisturbed_run_replays_exact() -> None:
    cluster = running([])
    cluster.run_to_end()
    report = replayed(cluster)
    assert report.exact
    assert report.rows.results == sum(len(cluster.rows(query)) for query in ("shops", "hours", "big"))
    assert report.dead_letters == Counts(results=16)
    assert report.notes == []


def test_rows_of_another_job_in_the_same_topic_are_left_out() -> None:
    cluster = running([])
    cluster.run_to_end()

    def with_anothers(rows: list[MemoryMessage]) -> list[MemoryMessage]:
        other = [(name, b"orders@9-ffffff" if name == "job" else value) for name, value in rows[0].headers() or ()]
        return [*rows, MemoryMessage(0, rows[-1].timestamp()[1], rows[0].value(), rows[0].key(), other)]

    tamper(cluster, "shops", with_anothers)
    report = replayed(cluster)
    assert report.exact
    assert [note for note in report.notes if "1 record not of this job" in note]


@examples(each_run=4, with_long=40)
@given(st.lists(st.tuples(st.integers(1, 400), st.sampled_from(["w1", "w2", "w3"])), max_size=5), st.integers(0, 99))
def test_a_run_with_restarts_replays_exact_while_it_runs_and_after_its_end(
    kills: list[tuple[int, str]], seed: int
) -> None:
    cluster = running(kills, seed)
    assert replayed(cluster).exact
    cluster.run_to_end()
    report = replayed(cluster)
    assert (report.exact, report.differences) == (True, [])
    assert report.rows.results == sum(len(cluster.rows(query)) for query in ("shops", "hours", "big"))


def test_a_source_task_may_deliver_ahead_of_the_others() -> None:
    """`batch 27 was delivered, but source task s0-2 has no valid cut for it`: of a job that was cancelled."""
    cluster = MemoryCluster(JOB + "placement: {units: [[orders]]}\n")
    ahead, behind = (unit for unit in cluster.units if unit.startswith("orders"))
    cluster.place({ahead: [cluster.start("w1")]})
    for _ in range(3):
        cluster.feed("orders", [*orders(5), b"{not json"])
        cluster.turn(60)
    assert len(cluster.dead_letters()) == 3
    report = replayed(cluster)
    assert (report.exact, report.dead_letters) == (True, Counts(results=3))

    cluster.place({behind: [cluster.start("w2")]} | {u: [cluster.workers["w1"]] for u in cluster.units if u != behind})
    cluster.run_to_end()
    assert replayed(cluster).exact


@pytest.mark.parametrize("topic", ["shops", "big"])
def test_each_kind_of_difference_is_told_from_the_others(topic: str) -> None:
    cluster = running([(50, "w1")])
    cluster.run_to_end()
    results = replayed(cluster).rows.results
    stored = fullest(cluster, topic)
    pristine = list(stored)

    def counts(change: Tamper) -> tuple[int, int, int]:
        tamper(cluster, topic, change)
        rows = replayed(cluster).rows
        stored[:] = pristine
        assert rows.results == results, "what is expected does not depend on what is there"
        return rows.lost, rows.duplicated, rows.wrong

    assert counts(lambda rows: rows[:5] + rows[6:]) == (1, 0, 0)
    assert counts(lambda rows: rows[:5] + rows[4:]) == (0, 1, 0), "doubled at once"
    assert counts(lambda rows: [*rows, *rows[:3]]) == (0, 3, 0), "doubled long after"
    assert counts(lambda rows: [*rows[:5], changed(rows[5]), *rows[6:]]) == (0, 0, 1)
    assert counts(lambda rows: [*rows[:5], changed(rows[5]), *rows[5:]]) == (0, 0, 1), "one too many"
    assert counts(lambda rows: list(reversed(rows[:9])) + rows[9:]) == (0, 0, 0), "order in a batch is not compared"
    assert counts(lambda rows: []) == (len(pristine), 0, 0)


def test_the_first_differences_say_what_was_expected_and_what_was_found() -> None:
    cluster = running([])
    cluster.run_to_end()
    tamper(cluster, "shops", lambda rows: [changed(rows[0]), *rows[1:]])
    (difference,) = replayed(cluster).differences
    assert (difference.kind, difference.stream) == ("wrong", "shops")
    assert difference.expected is not None
    assert difference.found is not None
    assert difference.expected.key == difference.found.key
    assert difference.expected.value == difference.found.value.replace(b": ", b":", 1)


def test_dead_letters_are_compared_as_well() -> None:
    cluster = running([])
    cluster.run_to_end()
    tamper(cluster, cluster.topics.dead_letters, lambda letters: [*letters[1:], letters[3]])
    report = replayed(cluster)
    assert report.rows.exact
    assert (report.dead_letters.lost, report.dead_letters.duplicated) == (1, 1)


def test_rows_before_the_first_batch_to_compare_are_left_out() -> None:
    cluster = running([])
    cluster.run_to_end()
    everything = replayed(cluster)
    tamper(cluster, "big", lambda rows: rows[1:])
    late = replayed(cluster, first_batch=everything.batches // 2)
    assert late.exact
    assert 0 < late.rows.results < everything.rows.results
    assert not replayed(cluster).exact


def test_rows_of_other_generations_are_neither_duplicated_nor_wrong() -> None:
    """They name the same query, and batches of their own; the time of the plans tells them apart."""
    cluster = running([])
    cluster.run_to_end()
    results = replayed(cluster).rows.results
    plan_ms = next(cluster.log.scan(Partition(cluster.cluster.plans, 0))).timestamp()[1]

    def earlier(rows: list[MemoryMessage]) -> list[MemoryMessage]:
        return [MemoryMessage(0, plan_ms - 1, m.value(), m.key(), m.headers()) for m in rows[:9]] + rows

    tamper(cluster, "big", earlier)
    next_plan = plans.encode(cluster.plan).replace(cluster.plan.generation.encode(), b"9-abcdef")
    cluster.turn()
    cluster.log.appender("test").append(Partition(cluster.cluster.plans, 0), next_plan)
    tamper(cluster, "shops", lambda rows: [*rows, MemoryMessage(0, plan_ms + cluster.now_ms, *told(rows[0]))])
    report = replay(cluster.log, cluster.cluster, f"orders@{cluster.plan.generation}")
    assert (report.exact, report.rows.results) == (True, results)


def test_joins_windows_and_the_users_operators_replay_exact_over_many_batches() -> None:
    """Two sources, at two paces, restarts between them; state goes through its image more than once."""
    plain = load(CONTRACT_JOB.read_text(), CONTRACT_JOB.name).as_plain()
    plain["queries"] |= {name: {"input": name, "sink": {"topic": name}} for name in ("scored", "with_weather")}
    cluster = MemoryCluster(json.dumps(plain))
    units = cluster.units
    worker = cluster.start("w1")
    cluster.place({unit: [worker] for unit in units})
    rows = {"flights": flights().to_dicts(), "weather": weather().to_dicts()}
    partitions = {s.operator: sum(map(len, s.owners)) for s in cluster.plan.sources}
    for step in range(70):
        for source, some in rows.items():
            size = -(-len(some) // 70)
            for index, row in enumerate(some[step * size : (step + 1) * size]):
                cluster.feed(source, [row], index % partitions[source])
        cluster.turn(12)
        if step % 25 == 24:
            cluster.kill("w1")
            worker = cluster.start("w1")
            cluster.place({unit: [worker] for unit in units})
    cluster.run_to_end()
    report = replay(cluster.log, cluster.cluster, cluster.plan.job)
    assert (report.exact, report.differences) == (True, [])
    assert report.batches > SETTLE_EVERY
    assert report.rows.results > 100


def test_an_unknown_job_is_answered_with_those_that_are_known() -> None:
    cluster = running([])
    with pytest.raises(CommandFailed, match="no job 'order'") as failed:
        replay(cluster.log, cluster.cluster, "order")
    assert f"orders@{cluster.plan.generation}" in failed.value.hint
    with pytest.raises(CommandFailed, match="no job 'orders@7-000000'"):
        replay(cluster.log, cluster.cluster, "orders", generation="7-000000")


def test_records_that_retention_has_deleted_are_named() -> None:
    cluster = running([])
    cluster.log.trim({Partition("orders", 1): 7})
    with pytest.raises(CommandFailed, match=r"orders\[1\]: 0 to 6$"):
        replayed(cluster)


def test_a_python_operator_whose_module_is_missing_here_is_named() -> None:
    plain = load(CONTRACT_JOB.read_text(), CONTRACT_JOB.name).as_plain()
    plain["queries"]["scored"] = {"input": "scored", "sink": {"topic": "scored"}}
    cluster = MemoryCluster(json.dumps(plain))
    plan = plans.encode(cluster.plan).replace(b"tests.support.scoring:", b"elsewhere.scoring:")
    cluster.log.delete([cluster.cluster.plans])
    cluster.log.create(cluster.cluster.specs())
    cluster.log.appender("test").append(Partition(cluster.cluster.plans, 0), plan)
    with pytest.raises(CodeUnavailable, match=r"elsewhere\.scoring cannot be imported"):
        replay(cluster.log, cluster.cluster, cluster.plan.job)


def test_a_job_whose_topics_are_gone_says_so() -> None:
    cluster = running([])
    cluster.log.delete([cluster.topics.cuts])
    with pytest.raises(CommandFailed, match="is gone"):
        replayed(cluster)
