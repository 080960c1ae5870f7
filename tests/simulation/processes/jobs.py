"""Jobs drawn from a seed: small graphs of the real operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from holdfast.schemas.decided import Id
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.plan import make_plan
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES
from tests.simulation.processes.engine import describe
from tests.simulation.profiles import Profile

NAME = "job"
CALM_MS = 1_500
"""Longer than the longest grace of a heartbeat, so that a worker that was silent was not calm."""
MAX_UNITS = 8
Fields = dict[str, str]
SOURCE_FIELDS: Fields = {"k": "string?", "x": "int", "y": "float?", "at": "timestamp"}
SPARK = "heavy"
TABLE, TABLE_FIELDS = "table", {"k": "string?", "c": "int"}


@dataclass(frozen=True, slots=True)
class DrawnJob:
    """A job file as it is submitted, the user's topics by partition count, and the units that it is cut into."""

    spec: dict[str, Any]
    topics: dict[str, int]
    units: tuple[str, ...]


@dataclass(slots=True)
class _Stream:
    name: str
    fields: Fields
    windowed: bool = False
    keyed: list[str] = field(default_factory=list)


class _Drawing:
    """A job on its way to be drawn."""

    def __init__(self, random: Random, profile: Profile) -> None:
        self.random = random
        self._kinds, self._fresh = profile.operators or OPERATORS, profile.fresh
        self._idle_after_s, self._behind, self._inputs = profile.idle_after_s, profile.behind, profile.inputs
        self._metadata = profile.metadata
        self.operators: dict[str, dict[str, Any]] = {}
        self.streams: list[_Stream] = []
        self.read: set[str] = set()

    def sources(self) -> tuple[dict[str, Any], dict[str, int]]:
        sources: dict[str, Any] = {}
        topics: dict[str, int] = {}
        for index in range(self.random.choice((1, 1, 2))):
            name = f"s{index}"
            if index and self.random.random() < 0.3:  # a second source of the same topic
                sources[name] = {**sources["s0"], "allowed_lateness_s": 1}
                self.streams.append(_Stream(name, dict(SOURCE_FIELDS)))
                continue
            tasks = self.random.choice((1, 1, 2, 3))
            topics[f"in-{name}"] = tasks * self.random.choice((1, 1, 2))
            sources[name] = {
                "topic": f"in-{name}",
                "fields": SOURCE_FIELDS,
                "event_time": "at",
                "unit": "ms",
                "allowed_lateness_s": self.random.choice((0, 1, 2)),
                "idle_after_s": self.random.choice((2, 30, None)),
                "parallelism": tasks,
            }
            if self._metadata:
                seen = {"seen": {"type": "int", "metadata": "offset"}, "from": {"type": "int", "metadata": "partition"}}
                sources[name]["fields"] = SOURCE_FIELDS | seen
            if self._idle_after_s is not None:
                sources[name]["idle_after_s"] = self._idle_after_s
            self.streams.append(_Stream(name, dict(SOURCE_FIELDS)))
        return sources, topics

    def table(self) -> tuple[dict[str, Any], dict[str, int]]:
        """A source that is a table, and a join with it."""
        self._keep(self._beside(f"o{len(self.operators)}"))
        tasks = self.random.choice((1, 1, 2))
        topic = f"in-{TABLE}"
        source = {"topic": topic, "fields": TABLE_FIELDS, "table": ["k"], "parallelism": tasks}
        return {TABLE: source}, {topic: tasks * self.random.choice((1, 2))}

    def spark(self) -> None:
        """The first source goes through an operator on Spark drivers, as one of its inputs or behind another one."""
        self.read.add("s0")
        read: str | dict[str, str] = "s0"
        if self._behind:
            self.operators["before"] = {"filter": "x >= 0", "input": "s0"}
            read = {"direct": "s0", "behind": "before"} if self._inputs else "before"
        self.operators[SPARK] = {"spark": {"sql": "SELECT * FROM input"}, "input": read}
        self.streams.append(_Stream(SPARK, dict(SOURCE_FIELDS)))

    def add(self) -> None:
        """Adds an operator on streams that are there, mostly ones that nobody reads yet."""
        self._keep(DRAWN[self.random.choice(self._kinds)](self, f"o{len(self.operators)}"))

    def _keep(self, drawn: tuple[dict[str, Any], _Stream] | None) -> None:
        if drawn is None:
            return
        spec, stream = drawn
        if self.random.random() < 0.5 and "top" not in spec:
            spec["parallelism"] = self.random.choice((1, 2, 2, 3))
        self.operators[stream.name] = spec
        self.streams.append(stream)

    def unread(self) -> list[_Stream]:
        return [stream for stream in self.streams if stream.name not in self.read]

    def _input(self, *needed: str) -> _Stream | None:
        fitting = [s for s in self.streams if set(needed) <= set(s.fields)]
        fresh = [s for s in fitting if s.name not in self.read]
        if not fitting:
            return None
        chosen = self.random.choice(fresh if fresh and self.random.random() < self._fresh else fitting)
        self.read.add(chosen.name)
        return chosen

    def _filter(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        taken = self._input("x")
        if taken is None:
            return None
        condition = self.random.choice(("x % 3 <> 1", "x > 20", "k IS NOT NULL" if "k" in taken.fields else "x < 90"))
        return {"filter": condition, "input": taken.name}, _Stream(name, taken.fields, taken.windowed)

    def _select(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        taken = self._input("k", "x")
        if taken is None:
            return None
        spec = {"select": ["k", "x + 1 AS x", "x / 7 AS y"], "input": taken.name}
        return spec, _Stream(name, {"k": taken.fields["k"], "x": "int", "y": "float?"})

    def _totals(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        taken = self._input("k", "x")
        if taken is None:
            return None
        means = {"mean": "mean(y)"} if "y" in taken.fields else {}
        spec = {
            "aggregate": {"n": "count()", "x": "sum(x)", "last": "last(x)", **means},
            "key": ["k"],
            "input": taken.name,
            "emit": self.random.choice(("updates", "each")),
        }
        return spec, _Stream(name, {"k": "string?", "x": "int", "n": "int"})

    def _windows(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        taken = self._input("k", "x")
        if taken is None:
            return None
        size_s = self.random.choice((1, 2, 5))
        window = {"size_s": size_s} | ({"slide_s": size_s / 2} if self.random.random() < 0.3 else {})
        spec = {
            "aggregate": {"x": "sum(x)", "n": "count()", "most": "max(x)"},
            "key": ["k"],
            "input": taken.name,
            "window": window,
            "emit": self.random.choice(("final", "final", "updates")),
        }
        return spec, _Stream(name, {"k": "string?", "x": "int", "n": "int"}, windowed=spec["emit"] == "final")

    def _join(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        sides = [self._input("k", "x"), self._input("k", "x")]
        left, right = sides
        if left is None or right is None or left.name == right.name:
            return None
        kind = self.random.choice(("inner", "left"))
        joined = {"left": left.name, "right": right.name, "on": ["k"], "within_s": 0.5, "kind": kind}
        return {"join": joined}, _Stream(name, {"k": "string?"})

    def _beside(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        taken = self._input("k", "x")
        if taken is None:
            return None
        joined = {"left": taken.name, "right": TABLE, "on": ["k"], "kind": self.random.choice(("inner", "left"))}
        return {"join": joined}, _Stream(name, {**taken.fields, "c": "int?"})

    def _union(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        first = self._input("k", "x")
        same = [s for s in self.streams if first is not None and s.fields == first.fields and s is not first]
        if first is None or not same or self.random.random() < 0.3:
            return None
        second = self.random.choice(same)
        self.read.add(second.name)
        return {"union": [first.name, second.name]}, _Stream(name, first.fields)

    def _top(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        windowed = [s for s in self.streams if s.windowed and "x" in s.fields]
        if not windowed:
            return None
        taken = self.random.choice(windowed)
        self.read.add(taken.name)
        return {"top": {"k": 2, "by": "x"}, "input": taken.name}, _Stream(name, taken.fields)

    def _items(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        """A row for each item of a list."""
        taken = self._input("k", "x")
        if taken is None:
            return None
        made = self.random.choice(("ARRAY[x, x + 1]", "STRING_TO_ARRAY(CAST(x AS VARCHAR), '1')"))
        self.operators[f"{name}-lists"] = {"select": ["k", f"{made} AS xs"], "input": taken.name}
        items = {"column": "xs", "into": "item", "position": "x", "keep_empty": self.random.random() < 0.5}
        return {"unnest": items, "input": f"{name}-lists"}, _Stream(name, {"k": "string?", "x": "int?"})

    def _as_of(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        sides = [self._input("k", "x"), self._input("k", "x")]
        left, right = sides
        if left is None or right is None or left.name == right.name:
            return None
        joined = {"left": left.name, "right": right.name, "on": ["k"], "kind": self.random.choice(("inner", "left"))}
        within = {"within_s": 0.5} if self.random.random() < 0.5 else {}
        return {"asof_join": joined | within}, _Stream(name, {"k": "string?", "x": "int"})

    def _forgotten(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        drawn = self._totals(name)
        if drawn is not None:
            drawn[0]["forget_after_s"] = self.random.choice((0.2, 0.5, 2))
        return drawn

    def _paced(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        """The newest totals once in a while of event time."""
        drawn = self._totals(name)
        if drawn is None:
            return None
        sums = f"{name}-sums"
        self.operators[sums] = {**drawn[0], "emit": "updates"}
        return {"pace": {"every_s": self.random.choice((0.5, 1, 3))}, "input": sums}, drawn[1]

    def _ranked(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        """The largest rows of each key, of a ranking that ends."""
        taken = self._input("k", "x")
        if taken is None:
            return None
        ranked = {"top": {"k": 2, "by": "x"}, "forget_after_s": self.random.choice((0.2, 0.5, 2))}
        return {**ranked, "key": ["k"], "input": taken.name}, _Stream(name, {"k": "string?", "x": "int"})

    def _query(self, name: str) -> tuple[dict[str, Any], _Stream] | None:
        """A whole query in SQL, which becomes operators."""
        taken = self.random.choice([one for one in self.streams if "at" in one.fields])
        self.read.add(taken.name)
        window = self.random.choice(("TUMBLE(at, INTERVAL '1 second')", "SESSION(at, INTERVAL '0.5 seconds')"))
        said = f"FROM {taken.name} WHERE x > 3 GROUP BY k, {window} HAVING count(*) > 1"
        text = self.random.choice((f"SELECT k, sum(x) AS x, count(*) AS n {said}",
                                   f"SELECT DISTINCT k, x % 5 AS x FROM {taken.name}"))  # fmt: skip
        return {"sql": text}, _Stream(name, {"k": "string?", "x": "int"})


DRAWN: Mapping[str, Callable[[_Drawing, str], tuple[dict[str, Any], _Stream] | None]] = {
    "filter": _Drawing._filter,
    "select": _Drawing._select,
    "totals": _Drawing._totals,
    "windows": _Drawing._windows,
    "join": _Drawing._join,
    "union": _Drawing._union,
    "top": _Drawing._top,
    "items": _Drawing._items,
    "as-of": _Drawing._as_of,
    "forgotten": _Drawing._forgotten,
    "pace": _Drawing._paced,
    "ranked": _Drawing._ranked,
    "sql": _Drawing._query,
}
OPERATORS = ("filter", "select", "totals", "windows", "join", "union", "top")
"""The kinds of ordinary histories."""
OTHER_JOINS = 0.4
"""Share of the jobs with a join of streams that have one of another kind."""
STRICT = "strict"
"""Begins the name of a version of code that raises more often (tests/support/raising.py)."""
DEDUPLICATED, OTHER_WINDOWS = 0.2, 0.25
"""Share of the jobs that have a dedup, and of those with final windows that have sessions or cumulative ones."""
UPDATES = 0.5
"""Share of the jobs with a table of which a join sends updates."""


def draw_job(random: Random, aside: Random, profile: Profile) -> DrawnJob:
    """A job that can be planned. aside: decides what is added to a job that is drawn; it shifts no other draw."""
    while True:
        spec, topics = _draw(random, profile)
        if not profile.operators or "dedup" in profile.operators:
            _deduplicate(aside, spec)
        if profile.raises and not (_beside_all if profile.versions else _in_between)(aside, spec, topics):
            continue
        if profile.odd:
            _odd(aside, spec, topics)
        if profile.clocked:
            _clocked(aside, spec, topics)
        if profile.asks:
            _asks(aside, spec, topics)
        _other_windows(aside, spec)
        _other_joins(aside, spec)
        _updates(aside, spec, topics)
        units = _units(spec, topics)
        if 0 < len(units) <= MAX_UNITS:
            return DrawnJob(spec, topics, units)


def planned(spec: dict[str, Any], topics: dict[str, int]) -> DrawnJob:
    """A job that nobody drew."""
    return DrawnJob(spec, topics, _units(spec, topics))


def _units(spec: dict[str, Any], topics: dict[str, int]) -> tuple[str, ...]:
    """None if the job would be rejected."""
    first = {topic: dict.fromkeys(range(count), 0) for topic, count in topics.items()}
    try:
        plan = make_plan(
            interpret(spec),
            generation="0-000000",
            id=Id("draw", 1),
            topics=topics,
            first=first,
            prefix="draw",
            versions={},
            allow=["tests"],
            describe=describe,
        )
    except JobRejected:
        return ()
    return tuple(unit.name for unit in plan.units)


def _draw(random: Random, profile: Profile) -> tuple[dict[str, Any], dict[str, int]]:
    drawing = _Drawing(random, profile)
    sources, topics = drawing.sources()
    if profile.table:
        source, topic = drawing.table()
        sources, topics = {**sources, **source}, {**topics, **topic}
    if profile.spark:
        drawing.spark()
    for _ in range(random.choice((1, 2, 3, 4))):
        drawing.add()
    queries = {}
    for index, stream in enumerate(drawing.unread() or drawing.streams[-1:]):
        topics[f"out-{index}"] = random.choice((1, 2))
        queries[f"q{index}"] = {"input": stream.name, "sink": {"topic": f"out-{index}"}}
    spec = {
        "name": NAME,
        "keep_cuts": True,
        "sources": sources,
        "operators": drawing.operators,
        "queries": queries,
        "batch_interval_ms": random.choice((20, 50, 100, 200, 200)),
        "fault_tolerance": _fault_tolerance(random, [*sources, *drawing.operators], profile.schemes or list(SCHEMES)),
        "dead_letter_share": 1.0,
    }
    return spec, topics


def _deduplicate(random: Random, spec: dict[str, Any]) -> None:
    """In every fifth job an operator that reads a source reads the first rows of each key of it instead."""
    reading = [one for one in spec["operators"].values() if one.get("input") in spec["sources"]]
    if reading and random.random() < DEDUPLICATED:
        chosen = random.choice(reading)
        within_s, tasks = random.choice((0.3, 1, 5)), random.choice((1, 2, 3))
        keys = random.choice((["k"], ["k", "x"]))
        first = {"dedup": {"within_s": within_s}, "key": keys, "input": chosen["input"], "parallelism": tasks}
        spec["operators"] = {"first": first, **spec["operators"]}
        chosen["input"] = "first"


def _other_windows(random: Random, spec: dict[str, Any]) -> None:
    """In some of the jobs final windows are sessions, or cumulative ones."""
    windows = [one for one in spec["operators"].values() if one.get("window") and one["emit"] == "final"]
    share, shape = random.random(), random.choice(({"gap_s": 0.2}, {"gap_s": 0.5}, {"size_s": 2, "step_s": 0.5}))
    if windows and share > 1 - OTHER_WINDOWS:
        random.choice(windows)["window"] = shape


def _other_joins(random: Random, spec: dict[str, Any]) -> None:
    """In some of the jobs a join of streams has another kind, and a range that is not the same to both sides."""
    joins = [one["join"] for one in spec["operators"].values() if "within_s" in one.get("join", ())]
    share, kind = random.random(), random.choice(("right", "full", "semi", "anti"))
    if joins and share > 1 - OTHER_JOINS:
        joined = random.choice(joins)
        del joined["within_s"]
        joined |= {"kind": kind, "between": random.choice(([-0.2, 0.7], [0.1, 0.6], [-0.5, 0]))}


def _updates(random: Random, spec: dict[str, Any], topics: dict[str, int]) -> None:
    """In some of the jobs with a table it is joined with totals, or with itself, and changes of it are sent, too."""
    if TABLE not in spec["sources"] or (share := random.random()) > UPDATES:
        return
    left = TABLE
    if share < UPDATES / 2:
        left = "sums"
        read = random.choice([name for name in spec["sources"] if name != TABLE])
        spec["operators"][left] = {"aggregate": {"x": "sum(x)"}, "key": ["k"], "input": read}
    joined = {
        "left": left,
        "right": TABLE,
        "on": ["k"],
        "kind": random.choice(("inner", "left", "full")),
        "emit": "updates",
    }
    spec["operators"]["updated"] = {"join": joined, "parallelism": random.choice((1, 2))}
    spec["queries"]["updated"] = {"input": "updated", "sink": {"topic": "out-updated", "delete_when": "op = 'd'"}}
    topics["out-updated"] = random.choice((1, 2))


def _in_between(random: Random, spec: dict[str, Any], topics: dict[str, int]) -> bool:
    """An operator that reads a source reads what is left of it where code does not raise; False if none does."""
    reading = [one for one in spec["operators"].values() if one.get("input") in spec["sources"]]
    if reading:
        chosen = random.choice(reading)
        spec["operators"] = {"fussy": fussy(random, chosen["input"], worse=0), **spec["operators"]}
        chosen["input"] = "fussy"
    return bool(reading)


def _beside_all(random: Random, spec: dict[str, Any], topics: dict[str, int]) -> bool:
    """Adds code that raises beside all else: rows of a source at which it does not raise go to the user; on some
    workers it
    raises at more.
    """
    spec["operators"]["fussy"] = fussy(random, random.choice(list(spec["sources"])), worse=random.choice((3, 7, 19)))
    spec["queries"]["fussy"] = {"input": "fussy", "sink": {"topic": "out-fussy"}}
    topics["out-fussy"] = random.choice((1, 2))
    return True


def fussy(random: Random, source: str, worse: int) -> dict[str, Any]:
    """Code that raises at some rows."""
    given: dict[str, Any] = {"key": "k", "number": "x", "bad": 7, "together": random.choice((0, 0, 3))}
    if worse:  # one version hardly raises at all: where both do, but at other rows, the copy that waits stops
        given |= {"bad": 97, "worse": worse, "stricter": [STRICT], "together": 0}
    code = {"python": "tests.support.raising:Fussy", "params": given}
    return {**code, "key": ["k"], "input": source, "parallelism": random.choice((1, 2))}


def _odd(random: Random, spec: dict[str, Any], topics: dict[str, int]) -> None:
    """A source goes through code that gives other rows with odd versions of libraries, to the user."""
    given = {"key": "k", "number": "x"}  # each row: after a few equal batches such a copy would be let lead
    code = {"python": "tests.support.odd:Odd", "params": given, "parallelism": random.choice((1, 2))}
    spec["operators"]["odd"] = {**code, "key": ["k"], "input": random.choice(list(spec["sources"]))}
    spec["queries"]["odd"] = {"input": "odd", "sink": {"topic": "out-odd"}}
    topics["out-odd"] = random.choice((1, 2))


def _clocked(random: Random, spec: dict[str, Any], topics: dict[str, int]) -> None:
    """Keys of a source of which a while nothing came go to the user, by the time of day."""
    given = {"key": "k", "after_ms": random.choice((0, 30, 400, 2_000))}
    code = {"python": "tests.support.clocked:Reminder", "params": given, "clock": True}
    tasks = {"key": ["k"], "parallelism": random.choice((1, 2))}
    spec["operators"]["reminder"] = {**code, **tasks, "input": random.choice(list(spec["sources"]))}
    spec["queries"]["reminder"] = {"input": "reminder", "sink": {"topic": "out-reminder"}}
    topics["out-reminder"] = random.choice((1, 2))


def _asks(random: Random, spec: dict[str, Any], topics: dict[str, int]) -> None:
    """A service says something to each row of a source, for the user, and behind it for totals."""
    ask = {"rows": random.choice((1, 3, 50)), "pause_s": 0.02, "retries": random.choice((0, 2, 1000))}
    code = {"python": "tests.support.asking:Unsteady", "params": {"column": "k"}, "ask": ask}
    tasks = {"key": ["k"], "parallelism": random.choice((1, 2))}
    spec["operators"]["said"] = {**code, **tasks, "input": random.choice(list(spec["sources"]))}
    totals = {"aggregate": {"n": "sum(said)"}, "key": ["k"], "input": "said", "emit": "updates"}
    spec["operators"]["said-of"] = totals
    for name in ("said", "said-of"):
        spec["queries"][name] = {"input": name, "sink": {"topic": f"out-{name}"}}
        topics[f"out-{name}"] = random.choice((1, 2))


def _fault_tolerance(random: Random, operators: list[str], schemes: Sequence[str]) -> dict[str, Any]:
    return {
        "default": {"scheme": random.choice(schemes)},
        "units": {name: {"scheme": random.choice(schemes)} for name in operators if random.random() < 0.3},
        "checkpoint": {"interval_ms": random.choice((50, 100, 300, 500))},
        "fail_stop_timeout_s": random.choice((1, 2, 4)),
        "hybrid": {"inputs": random.choice(("held", "held", "paused")), "calm_ms": CALM_MS},
    }


def draw_checkpoints(random: Random, tolerance: Mapping[str, Any], policies: Sequence[str]) -> dict[str, Any]:
    """A checkpoint policy that a job with these schemes may have, and its settings."""
    policy = random.choice(policies)
    schemes = {tolerance["default"]["scheme"], *(one["scheme"] for one in tolerance["units"].values())}
    if policy == "idle-minmax" and schemes & {"active-standby", "active-replication"}:
        policy = "idle-roundrobin"
    return {
        "policy": policy,
        "interval_ms": random.choice((50, 100, 300, 500)),
        "min_interval_ms": random.choice((0, 20, 100, 200)),
        "max_interval_ms": random.choice((200, 500, 2_000)),
        "merge_ms": 5.0 if len(policies) > 1 else 50.0,
        "every_batches": random.choice((1, 2, 5, 10)),
    }
