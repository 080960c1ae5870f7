"""Every alert of infra/prometheus fires in the state that it is for, and none in a calm cluster.

The states are made in our own cores and exporters, which are scraped. Where `promtool` is installed, it evaluates the
same scrapes; otherwise tests/support/promql.py alone does.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec
import pytest
import yaml
from prometheus_client import CollectorRegistry

from holdfast.schemas.assignments import unit_key
from holdfast.schemas.costs import Costs
from holdfast.schemas.heartbeats import CopyState
from holdfast.schemas.plans import Status
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.core.job import Job
from holdfast.services.controller.core.life import Life, Phase
from holdfast.services.controller.meters import of_jobs
from holdfast.services.decisions.refusals import Refusals
from holdfast.services.hosting.lags import Taken, of_lags
from holdfast.services.hosting.metrics import of_copies
from holdfast.services.log.memory import MemoryLog
from holdfast.services.process.metrics import of_process, of_refusals
from holdfast.services.process.metrics_server import registry_of
from holdfast.services.recovery.meters import Meters
from holdfast.services.worker.core.retention import Extent, Keeps, Retention
from tests.support.alerting import INFRA, INTERVAL_S, RULES, Scene, alerts, fired, scrapes, times
from tests.support.promql import Scrapes, evaluate, parse
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import G, World

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
UNIT = unit_key("job", G, "u-0")
BREAKS_S, UNTIL_S = 600, 1_500
"""When the bad state begins, and when it is looked what fires."""
LAG = 20


def costs(**more: object) -> Costs:
    return msgspec.structs.replace(Costs(UNIT, leads=True, unsaved=40, checkpoint_age_ms=400.0), **more)


# -- targets ----------------------------------------------------------------------------------------------------------


def worker(
    now: Costs, lag: int = LAG, refused: Callable[[], Mapping[str, int]] = dict, at_risk: int = 0
) -> CollectorRegistry:
    log = MemoryLog(lambda: 0)
    log.create([TopicSpec("clicks", 1)])
    appender = log.appender("test")
    for _ in range(lag):
        appender.append(Partition("clicks", 0), b"{}")
    copies = (CopyState(UNIT, 1, "running", batch=7, durable=5),)
    taken = [Taken(UNIT, "clicks", "clicks", {0: 0}, at_risk)]
    return registry_of(
        of_process("w1", "worker"),
        of_copies(lambda: copies, lambda _: (now,)),
        of_lags(log, lambda: taken),
        of_refusals(refused),
    )


def controller(state: str = "running", available: int = 1) -> CollectorRegistry:
    core = Controller("c", 100)
    job = core.jobs[G] = Job(G, "job", units={UNIT: "u-0"}, life=Life("", Phase.RUNNING))
    job.published = Status(job="job", generation=G, state=state, time_ms=1, available=available, units=1)
    return registry_of(of_process("c", "controller"), of_jobs(core))


def recovery(world: World) -> CollectorRegistry:
    """Of its last replica."""
    return Meters(world.replicas[-1].core.known, 0, name="r").registry


def protected() -> World:
    return World(Worker("w1", "a"), Worker("w2", "b")).start().settle()


def calm(at_s: float) -> dict[str, CollectorRegistry]:
    """A cluster that is as it should be: each value changes a little, and comes back."""
    turn = int(at_s) // INTERVAL_S % 3
    now = costs(unsaved=10 * turn, checkpoint_age_ms=300.0 * turn, records=at_s * 100, dead=5, lost=2)
    return {"w1": worker(now, LAG * turn), "c": controller(), "r": CALM}


CALM = recovery(protected())


# -- bad states -------------------------------------------------------------------------------------------------------


def unprotected() -> Scene:
    alone = recovery(World(Worker("w1")).start().run(3))
    return lambda at_s: {"r": alone}


def without_a_place() -> Scene:
    """The job wants another kind of worker than there is."""
    world = World(Worker("w1", hosts="spark")).run(0.5)
    world.goal("run")
    nowhere = recovery(world.run(3))
    return lambda at_s: {"r": nowhere}


def falling_behind(per_s: float) -> Scene:
    return lambda at_s: {"w1": worker(costs(), LAG + int(per_s * (at_s - BREAKS_S)))}


def counted_at_the_end(name: str, before: int) -> Scene:
    """Counted between the last two scrapes."""
    return lambda at_s: {"w1": worker(costs(**{name: before + (at_s >= UNTIL_S)}))}


def counted_before_the_first_scrape(name: str) -> Scene:
    """The whole job began between the last two scrapes: its counters begin with what they count."""
    return lambda at_s: {"w1": worker(costs(**{name: 3}))} if at_s >= UNTIL_S else {"w1": registry_of()}


def old_checkpoint() -> Scene:
    return lambda at_s: {"w1": worker(costs(unsaved=int(at_s), checkpoint_age_ms=1000 * (at_s - BREAKS_S)))}


def no_checkpoint_at_all() -> Scene:
    return lambda at_s: {"w1": worker(costs(unsaved=int(at_s), checkpoint_age_ms=None))}


def short_retention() -> Scene:
    """As the watch of the leader that reads the topic counts, once somebody has set the topic's retention lower."""
    topic = Retention("clicks", "clicks", 40.0)
    topic.shortened(Keeps(60_000))
    risk = topic.judge({0: Extent(needed=100, start=0, end=300, aged=250)}, 10.0, 0.0)
    return lambda at_s: {"w1": worker(costs(), at_risk=risk.records)}


def late_workers() -> Scene:
    """A worker misses heartbeats, a copy takes over, and the worker was only late: three times."""
    world = protected()
    found = [recovery(world)]

    def at(at_s: float) -> dict[str, CollectorRegistry]:
        if at_s > UNTIL_S - 4 * INTERVAL_S and sum(world.replicas[-1].core.known.detector.false_switches.values()) < 3:
            leader = world.leader_of()
            world.stall(leader)
            world.run(0.25)
            world.stall(leader, False)
            world.run(1).settle()
        return {"r": found[0]}

    return at


def strange_record() -> Scene:
    """One, at the end, on a topic from which nothing was refused before."""
    refusals = Refusals(lambda event: None, lambda: 0.0, lambda: 0)

    def at(at_s: float) -> dict[str, CollectorRegistry]:
        if at_s >= UNTIL_S:
            refusals.refuse(Partition("holdfast.assignments", 0), 7, "no seal")
        return {"w1": worker(costs(), refused=refusals.most)}

    return at


def gone(instance: str) -> Scene:
    return lambda at_s: {instance: registry_of()}


STATES: list[tuple[str, Callable[[], Scene]]] = [
    ("HoldfastUnitUnprotected", unprotected),
    ("HoldfastUnitWithoutPlace", without_a_place),
    ("HoldfastLagGrows", partial(falling_behind, 2.0)),
    ("HoldfastLagGrows", partial(falling_behind, 0.2)),
    ("HoldfastDeadLetters", partial(counted_at_the_end, "dead", 5)),
    ("HoldfastDeadLetters", partial(counted_before_the_first_scrape, "dead")),
    ("HoldfastCheckpointOld", old_checkpoint),
    ("HoldfastCheckpointOld", no_checkpoint_at_all),
    ("HoldfastFalseSwitches", late_workers),
    ("HoldfastJobFailed", lambda: lambda at_s: {"c": controller("failed")}),
    ("HoldfastJobFailed", lambda: lambda at_s: {"c": controller("stopped")}),
    ("HoldfastUnitsDown", lambda: lambda at_s: {"c": controller(available=0)}),
    ("HoldfastRecordsLost", partial(counted_at_the_end, "lost", 2)),
    ("HoldfastRecordsLost", partial(counted_before_the_first_scrape, "lost")),
    ("HoldfastRetentionShort", short_retention),
    ("HoldfastRecordsRefused", strange_record),
    ("HoldfastNoController", partial(gone, "c")),
    ("HoldfastNoRecovery", partial(gone, "r")),
]


def history(bad: Scene) -> Scrapes:
    return scrapes(lambda at_s: {**calm(at_s), **(bad(at_s) if at_s >= BREAKS_S else {})}, UNTIL_S)


# -- what must hold ---------------------------------------------------------------------------------------------------


def test_each_alert_is_tried() -> None:
    assert {name for name, _ in STATES} == {alert.name for alert in alerts()}


@pytest.mark.parametrize(("name", "make"), STATES)
def test_an_alert_fires_in_the_state_that_it_is_for_and_no_other_one_does(
    name: str, make: Callable[[], Scene], tmp_path: Path
) -> None:
    scraped = history(make())
    firing = {alert.name: fired(alert, scraped, UNTIL_S) for alert in alerts()}
    assert {found for found, where in firing.items() if where} == {name}
    (labels,) = firing[name]
    if "job" in dict(labels):
        assert dict(labels)["job"] == "job", "the label of Prometheus' own has not taken its place"
    if shutil.which("promtool"):
        ask_promtool(scraped, tmp_path, {name})


def test_in_a_calm_cluster_nothing_fires(tmp_path: Path) -> None:
    scraped = history(lambda at_s: {})
    assert not [alert.name for alert in alerts() if fired(alert, scraped, UNTIL_S)]
    if shutil.which("promtool"):
        ask_promtool(scraped, tmp_path, set())


def test_a_state_that_has_just_begun_wakes_nobody() -> None:
    """Those with a `for` do not fire at once."""
    alone = unprotected()(0.0)
    scraped = scrapes(lambda at_s: {**calm(at_s), **(alone if at_s >= UNTIL_S - 60 else {})}, UNTIL_S)
    (alert,) = [alert for alert in alerts() if alert.name == "HoldfastUnitUnprotected"]
    assert not fired(alert, scraped, UNTIL_S)


def test_a_takeover_is_no_dead_letter() -> None:
    """Another process continues the counter of the unit where the former leader has left it."""

    def moved(at_s: float) -> dict[str, CollectorRegistry]:
        return {"w1": worker(costs(leads=False)), "w2": worker(costs(dead=5, lost=2))}

    scraped = history(moved)
    assert not [alert.name for alert in alerts() if fired(alert, scraped, BREAKS_S + 60)]


def test_each_alert_has_a_section_that_says_what_to_do() -> None:
    headings = {line.removeprefix("### ").strip() for line in PAGE.read_text().splitlines() if line.startswith("### ")}
    for alert in alerts():
        assert alert.runbook == f"docs/operations.md#{alert.name.lower()}"
        assert alert.name in headings
        assert alert.severity in ("warning", "critical")


# -- promtool ---------------------------------------------------------------------------------------------------------


def ask_promtool(scraped: Scrapes, folder: Path, firing: set[str]) -> None:
    """The same scrapes, evaluated by Prometheus itself."""
    tests = [
        {
            "interval": f"{INTERVAL_S}s",
            "input_series": _series(scraped),
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertstate="firing", alertname="{alert.name}"}}) or vector(0)',
                    "eval_time": f"{UNTIL_S}s",
                    "exp_samples": [{"labels": "{}", "value": int(alert.name in firing)}],
                }
                for alert in alerts()
            ],
        }
    ]
    file = folder / "tests.yml"
    made = {"rule_files": [str(RULES)], "evaluation_interval": f"{INTERVAL_S}s", "tests": tests}
    file.write_text(yaml.safe_dump(made, width=10_000))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _series(scraped: Scrapes) -> list[dict[str, str]]:
    values: dict[str, dict[float, float]] = {}
    for instance, at in scraped.times.items():
        for at_s, found in zip(at, scraped.found[instance], strict=True):
            for name, vector in found.items():
                for labels, value in vector.items():
                    said = ",".join(f'{label}="{text}"' for label, text in sorted(labels))
                    values.setdefault(f"{name}{{{said}}}", {})[at_s] = value
    return [{"series": name, "values": _written(known)} for name, known in values.items()]


def _written(known: Mapping[float, float]) -> str:
    """`stale` where a scrape lacks the series, as Prometheus marks it."""
    words, there = [], False
    for at_s in times(UNTIL_S):
        words.append(repr(known[at_s]) if at_s in known else "stale" if there else "_")
        there = at_s in known
    return " ".join(words)


def test_prometheus_takes_our_files() -> None:
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus); only our own evaluator was asked")
    for words in (["config", str(INFRA / "prometheus" / "prometheus.yml")], ["rules", str(RULES)]):
        done = subprocess.run(["promtool", "check", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


# -- our own evaluator ------------------------------------------------------------------------------------------------


def test_a_message_that_cannot_be_read_is_refused() -> None:
    for text in ("sum(x", "x[5m", "x{a=1}", "x ? y", "rate(x[5m]) by", ""):
        with pytest.raises((ValueError, IndexError)):
            parse(text)


def test_expressions_mean_what_they_mean_to_prometheus() -> None:
    scraped = Scrapes()
    for index in range(41):
        one, two = (frozenset({("job", "a"), ("unit", unit)}) for unit in "12")
        scraped.add(15.0 * index, "i", {"x": {one: index, two: 2.0 * index}, "y": {one: 100.0}})

    def of(text: str) -> list[float]:
        return sorted(evaluate(parse(text), scraped, 600).values())

    assert of("x") == [40, 80]
    assert of('x{unit="2"}') == of('x{unit=~"2|3"}') == of('x{unit!="1"}') == [80]
    assert of("sum by (job) (x)") == of("sum without (unit) (x)") == of("sum(x)") == [120]
    assert of("max(x) - min(x) * 2 > 0") == []
    assert of("x > 50 or y") == [80, 100]
    assert of("x and y") == [40]
    assert of("x unless y < 50") == [40, 80]
    assert of("x offset 5m") == [20, 40]
    assert of("increase(x[5m])") == [20, 40]
    assert of("min_over_time(sum(x)[5m:30s])") == [60]
    assert of("max_over_time(x[5m] offset 5m)") == [20, 40]
    assert of('absent(z{kind="c"})') == [1]
    assert of("y > on (job, unit) x") == [100]
