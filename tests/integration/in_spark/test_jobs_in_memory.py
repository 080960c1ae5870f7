"""Jobs with Spark operators in memory: one session of this process, and the rows that a cluster gives."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holdfast as hf
from holdfast.schemas.jobs import JobSpec
from holdfast.services.client.trials import attempt
from holdfast.services.planning.loader import interpret, load
from holdfast.services.planning.spark_settings import ALLOWED, texts
from holdfast.services.spark.local.session import STARTS, local_session, whole_answers
from holdfast.services.spark.session import own_session
from holdfast.testing import JobRun

pytestmark = [pytest.mark.spark, pytest.mark.slow]
BEGIN = datetime(2013, 1, 1, tzinfo=UTC)
FIELDS = {"origin": "string", "number": "int", "delay": "int", "time": "timestamp"}
HOURLY = {"spark": "tests.support.heavy:hourly", "input": "flights"}


def flight(number: int) -> dict[str, Any]:
    time = (BEGIN + timedelta(seconds=20 * number)).isoformat().replace("+00:00", "Z")
    return {"origin": ("JFK", "EWR", "LGA")[number % 3], "number": number, "delay": number * 7 % 100, "time": time}


def hourly(flights: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    found: dict[tuple[datetime, str], list[int]] = {}
    for one in flights:
        hour = datetime.fromisoformat(one["time"]).replace(minute=0, second=0)
        found.setdefault((hour, one["origin"]), []).append(one["delay"])
    return Counter((hour, origin, len(all), sum(all)) for (hour, origin), all in found.items())


def windows(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter((one["window_start"], one["origin"], one["n"], one["total"]) for one in rows)


def job(**operators: dict[str, Any]) -> JobSpec:
    return interpret({
        "name": "heavy",
        "sources": {"flights": {"topic": "flights", "fields": FIELDS, "event_time": "time"}},
        "operators": operators,
        "queries": {"q": {"input": list(operators)[-1], "sink": {"topic": "out"}}},
    })  # fmt: skip


def test_a_try_closes_windows_keeps_dead_letters_and_starts_one_session(capfd: pytest.CaptureFixture[str]) -> None:
    flights = [flight(number) for number in range(1_000)]
    bad = [b"no JSON", json.dumps({**flight(1), "delay": "long"}).encode()]
    given = [*(json.dumps(one).encode() for one in flights), *bad]
    found = attempt(job(h=HOURLY), {"flights": given})
    assert windows(found["q"].to_dicts()) == hourly(flights)
    assert found.dead_letters["offset"].to_list() == [1_000, 1_001]
    assert set(found.dead_letters["origin"]) == {"flights"}
    behind = job(
        most={"filter": "delay >= 10", "input": "flights"},
        h={
            "spark": {"sql": "SELECT origin, number, delay * 2 AS twice, time FROM input WHERE delay < 90"},
            "input": "most",
        },
    )
    found = attempt(behind, {"flights": flights})
    assert Counter(found["q"]["twice"]) == Counter(2 * one["delay"] for one in flights if 10 <= one["delay"] < 90)
    assert capfd.readouterr().err.splitlines() == [STARTS]


def test_a_test_feeds_kills_the_worker_and_sees_windows_close() -> None:
    run = JobRun(job(h=HOURLY))
    first, second = [flight(number) for number in range(2_000)], [flight(number) for number in range(2_000, 4_000)]
    run.feed("flights", first)
    before = run.new_rows("q")
    assert before.height
    run.kill()
    run.restore()
    assert run.new_rows("q").is_empty()
    run.feed("flights", second)
    run.finish()
    after = run.new_rows("q")
    assert windows([*before.to_dicts(), *after.to_dicts()]) == hourly([*first, *second])


def test_a_query_joins_a_source_with_what_an_operator_gives_and_a_function_gets_frames_by_name() -> None:
    """A flight and its bags: within ten minutes, of one number; a bag of an odd number is filtered out."""
    sources = {
        "flights": {"topic": "flights", "fields": FIELDS, "event_time": "time", "allowed_lateness_s": 60},
        "bags": {"topic": "bags", "fields": {"of": "int", "kg": "int", "at": "timestamp"}, "event_time": "at"},
    }
    inputs = {"flights": "flights", "bags": "even"}
    sql = (
        "SELECT number, kg, time FROM flights JOIN bags ON number = of "
        "AND at BETWEEN time AND time + INTERVAL 10 MINUTES"
    )
    spec = interpret({
        "name": "two",
        "sources": sources,
        "operators": {
            "even": {"filter": "of % 2 = 0", "input": "bags"},
            "query": {"spark": {"sql": sql}, "input": inputs},
            "function": {"spark": "tests.support.heavy:labelled", "input": inputs, "params": {"label": "x"}},
        },
        "queries": {
            "q": {"input": "query", "sink": {"topic": "q"}},
            "f": {"input": "function", "sink": {"topic": "f"}},
        },
    })  # fmt: skip
    flights = [flight(number) for number in range(60)]
    bags = [{"of": one["number"], "kg": one["number"] % 30, "at": one["time"]} for one in flights]
    bad = [{"of": "none", "kg": 1, "at": flights[0]["time"]}]
    found = attempt(spec, {"flights": [*flights, {**flights[0], "delay": "long"}], "bags": [*bags, *bad]})
    even = [one for one in range(60) if one % 2 == 0]
    assert sorted(zip(found["q"]["number"], found["q"]["kg"], strict=True)) == [(one, one % 30) for one in even]
    assert Counter(zip(found["f"]["label"], found["f"]["number"], strict=True)) == Counter(
        {("x flight", one): 1 for one in range(60)} | {("x bag", one): 1 for one in even}
    )
    assert sorted(found.dead_letters["origin"]) == ["bags", "flights", "flights"]


SPLIT = {"spark": "tests.support.heavy:split", "input": "flights", "params": {"least": 50}}


def test_a_function_has_several_outputs_each_with_its_own_columns_and_all_with_their_event_time() -> None:
    raw = job(
        split={**SPLIT, "outputs": ["late", "hourly"]},
        daily={"aggregate": {"n": "count()"}, "key": ["why"], "input": "split.late", "window": {"size_s": 86_400}},
    ).as_plain()
    raw["queries"]["hourly"] = {"input": "split.hourly", "sink": {"topic": "hourly"}}
    raw["queries"]["late"] = {"input": "split.late", "sink": {"topic": "late"}}
    flights = [flight(number) for number in range(6_000)]
    found = attempt(interpret(raw), {"flights": flights})
    late = [one for one in flights if one["delay"] >= 50]
    assert windows(found["hourly"].to_dicts()) == hourly(flights)
    assert Counter(found["late"].select("number", "why").rows()) == Counter((one["number"], "late") for one in late)
    days = Counter(datetime.fromisoformat(one["time"]).replace(hour=0, minute=0, second=0) for one in late)
    assert len(days) == 2
    assert dict(found["q"].select("window_start", "n").rows()) == days


@pytest.mark.parametrize(
    ("operator", "cause"),
    [
        (SPLIT, r"returned a dict: name its outputs in the job file, `outputs: \[hourly, late\]`"),
        (
            {**SPLIT, "outputs": ["late", "hour"]},
            r"returned the outputs \[hourly, late\], and the job file names \[late, hour\]",
        ),
        (
            {**HOURLY, "outputs": ["late"]},
            "returned a DataFrame, and the job file names outputs: return {'late': ...}",
        ),
        (
            {"spark": "tests.support.heavy:half_timed", "input": "flights", "outputs": ["number", "time"]},
            "output 'number' has no event time, and others have .keep the column",
        ),
    ],
)
def test_outputs_that_are_not_those_of_the_job_file_are_refused(operator: dict[str, Any], cause: str) -> None:
    reads = f"h.{operator['outputs'][0]}" if "outputs" in operator else "h"
    with pytest.raises(hf.JobRejected, match=cause):
        attempt(job(h=operator, some={"filter": "true", "input": reads}), {"flights": []})


def test_an_operator_has_its_own_settings_of_spark_and_those_of_another_one_do_not_reach_it() -> None:
    settings = ["spark.sql.shuffle.partitions", "spark.sql.execution.arrow.maxRecordsPerBatch"]
    shows = {"spark": "tests.support.heavy:with_settings", "input": "flights", "params": {"settings": settings}}
    raw = job(own={**shows, "conf": {settings[0]: 5, settings[1]: 100}}, others=shows).as_plain()
    raw["queries"]["own"] = {"input": "own", "sink": {"topic": "own"}}
    spec = interpret(raw)
    found = attempt(spec, {"flights": [flight(number) for number in range(3)]})
    assert set(found["own"].select("s0", "s1").rows()) == {("5", "100")}
    assert set(found["q"].select("s0", "s1").rows()) == {("2", "10000")}


def test_spark_takes_every_setting_that_a_job_may_set() -> None:
    for setting, bounds in ALLOWED.items():
        values = (True, False) if bounds is None else bounds
        for text in (texts({setting: value})[setting] for value in values):
            assert own_session(local_session(), {setting: text}).conf.get(setting) == text


def test_the_feature_store_keeps_the_newest_row_of_each_customer_and_deletes_one_that_spends_nothing() -> None:
    spec = load((Path(__file__).parents[3] / "compose" / "jobs" / "features.yaml").read_text(), "features.yaml")
    amounts = {"ada": [10.0, 5.0, 1.0], "bob": [7.0, -7.0, 0.0]}
    orders = [
        {"customer": name, "amount": amount, "placed_at": BEGIN + timedelta(days=day)}
        for day in range(3)
        for name, amount in ((name, some[day]) for name, some in amounts.items())
    ]
    found = attempt(spec, {"orders": pl.DataFrame(orders)})
    assert found["history"].height == 6
    (newest,) = [one for one in found["features"].to_dicts() if one["days"] == 3 and one["customer"] == "ada"]
    assert (newest["spent"], newest["largest"], newest["last_day"]) == (16.0, 10.0, date(2013, 1, 3))


class CutOff(BaseException):
    """As Ctrl-C, or the time-out of a test."""


def test_a_call_that_is_cut_off_leaves_its_answer_to_no_other() -> None:
    spark = local_session()
    jvm: Any = spark._jvm

    def cut_off(*_: object) -> None:
        raise CutOff

    former = signal.signal(signal.SIGUSR1, cut_off)
    try:
        threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1)).start()
        with pytest.raises(CutOff) as kept, whole_answers():
            jvm.java.lang.Thread.sleep(3_000)
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert kept.tb is not None, "a report of the failure keeps the frames, and so the connection"
    assert [jvm.java.lang.Math.abs(-number) for number in (3, 4)] == [3, 4]
    assert spark.range(5).count() == 5


def test_an_input_that_is_not_used_is_a_mistake() -> None:
    spec = job(
        early={"filter": "delay < 10", "input": "flights"},
        h={"spark": {"sql": "SELECT * FROM all"}, "input": {"all": "flights", "some": "early"}},
    )
    with pytest.raises(hf.JobRejected, match="it does not use its input some"):
        attempt(spec, {"flights": []})


def test_an_error_of_a_query_names_the_operator_and_the_cause() -> None:
    with pytest.raises(hf.JobRejected, match="heavy:forgets returned nothing, not a DataFrame"):
        attempt(job(h={"spark": "tests.support.heavy:forgets", "input": "flights"}), {"flights": []})
