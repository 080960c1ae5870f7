"""The jobs that are measured. $topic is the topic they read; they write to $topic-out."""

from __future__ import annotations

from string import Template

_EVENTS = """
name: bench-$name
sources:
  events:
    {topic: $topic, fields: {user: string, amount: int, at: timestamp}, event_time: at, unit: ms, parallelism: $tasks}
"""

COUNT = Template(
    _EVENTS
    + """
operators: {count: {aggregate: {n: "count()", total: "sum(amount)"}, key: [user], input: events}}
queries: {counts: {input: count, sink: {topic: $topic-out}}}
"""
)
APART = Template(f"{COUNT.template}placement: {{units: [[events], [count, counts]]}}\n")
"""Its source is a unit by itself."""


def tentative(job: Template) -> Template:
    """The job with tentative results while units are out."""
    return Template(job.template.replace("sink: {topic", "results: tentative, sink: {topic"))


SHORT = Template(
    _EVENTS.replace("sources:", "replay_horizon_s: $horizon_s\nsources:")
    + """
operators: {count: {aggregate: {n: "count()", total: "sum(amount)"}, key: [user], input: events}}
queries: {counts: {input: count, sink: {topic: $topic-out}}}
"""
)
"""A job whose cuts are kept only for a while."""
EACH = Template(
    _EVENTS
    + """
operators: {count: {aggregate: {n: "count()", total: "sum(amount)"}, key: [user], input: events, emit: each}}
queries: {counts: {input: count, sink: {topic: $topic-out}}}
"""
)
SPLIT = Template(
    _EVENTS
    + """
operators:
  count:
    {aggregate: {n: "count()", total: "sum(amount)"}, key: [user], input: events, emit: each, parallelism: $parallel}
queries: {counts: {input: count, sink: {topic: $topic-out}}}
"""
)


def _of_code(text: str) -> Template:
    """A job with an operator of this package."""
    return Template(
        f"{_EVENTS}operators: {{given: {{{text}, input: events}}}}\n"
        "queries: {given: {input: given, sink: {topic: $topic-out}}}\n"
    )


PLAIN = _of_code('python: "bench.rig.code:Passing"')
CLOCK = _of_code('python: "bench.rig.code:Passing", clock: true')
ASK = _of_code('python: "bench.rig.code:Asking", ask: {}')
FILTER = Template(
    _EVENTS
    + """
operators:
  large: {filter: "amount >= 80", input: events}
  shaped: {select: [user, "amount * 2 AS twice"], input: large}
queries: {kept: {input: shaped, sink: {topic: $topic-out}}}
"""
)
SLIDING = Template(
    _EVENTS
    + """
operators:
  recent:
    aggregate: {n: "count()", average: "mean(amount)"}
    key: [user]
    window: {size_s: 10, slide_s: 1}
    emit: final
    input: events
queries: {windows: {input: recent, sink: {topic: $topic-out}}}
"""
)
SESSIONS = Template(
    _EVENTS
    + """
operators:
  visits:
    aggregate: {n: "count()", average: "mean(amount)"}
    key: [user]
    window: {gap_s: 3}
    input: events
queries: {visits: {input: visits, sink: {topic: $topic-out}}}
"""
)
JOIN = Template("""
name: bench-$name
sources:
  left: {topic: $topic, fields: {user: string, amount: int, at: timestamp}, event_time: at, unit: ms}
  right: {topic: $topic-right, fields: {user: string, amount: int, at: timestamp}, event_time: at, unit: ms}
operators:
  bought: {select: [user, "amount AS bought", at], input: left}
  paid: {select: [user, "amount AS paid", at], input: right}
  both: {join: {left: bought, right: paid, "on": [user], within_s: 60}}
queries: {pairs: {input: both, sink: {topic: $topic-out}}}
""")
AS_OF = Template("""
name: bench-$name
sources:
  left: {topic: $topic, fields: {user: string, amount: int, at: timestamp}, event_time: at, unit: ms}
  right: {topic: $topic-right, fields: {user: string, amount: int, at: timestamp}, event_time: at, unit: ms}
operators:
  prices: {select: [user, "amount AS price", at], input: right}
  valued: {asof_join: {left: left, right: prices, "on": [user]}}
queries: {valued: {input: valued, sink: {topic: $topic-out}}}
""")
CHAIN = Template(
    _EVENTS
    + """
operators:
  count: {aggregate: {n: "count()"}, key: [user], input: events}
  known: {filter: "n > 0", input: count}
queries: {counts: {input: known, sink: {topic: $topic-out}}}
placement: {units: [[events], [count], [known], [counts]]}
"""
)
WHOLE = Template(CHAIN.template.replace('filter: "n > 0"', "select: [user, n]"))
"""The chain, with all totals put out."""
PACED = Template(
    _EVENTS.replace("sources:", "batch_interval_ms: $interval_ms\nsources:")
    + """
operators: {count: {aggregate: {n: "count()"}, key: [user], input: events}}
queries: {counts: {input: count, sink: {topic: $topic-out}}}
"""
)
TWO_UNITS = Template(
    _EVENTS
    + """
operators: {count: {aggregate: {n: "count()"}, key: [user], input: events}}
queries: {counts: {input: count, sink: {topic: $topic-out}}}
placement: {units: [[events], [count, counts]]}
"""
)
PYRAMID = Template(
    _EVENTS
    + """
operators:
  a: {aggregate: {n: "count()"}, key: [user], input: events, parallelism: 16, emit: updates}
  b: {aggregate: {n: "count()"}, key: [user], input: a, parallelism: 8, emit: updates}
  c: {aggregate: {n: "count()"}, key: [user], input: b, parallelism: 4, emit: updates}
  d: {aggregate: {n: "count()"}, key: [user], input: c, parallelism: 2, emit: updates}
  e: {aggregate: {n: "count()"}, key: [user], input: d, parallelism: 1, emit: updates}
queries: {counts: {input: e, sink: {topic: $topic-out}}}
"""
)
DIRTY = Template(
    _EVENTS
    + """
operators:
  count: {aggregate: {n: "count()"}, key: [user], input: events}
  none: {filter: "n < 0", input: count}
queries: {counts: {input: none, sink: {topic: $topic-out}}}
placement: {units: [[events, count], [none, counts]]}
fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: $interval_ms}}
"""
)
"""A job whose first unit's frames show when each batch was processed, with little other work on them."""
FAILOVER = Template(
    _EVENTS
    + """
operators:
  count: {aggregate: {n: "count()", sent: "max(amount)"}, key: [user], input: events}
  largest: {aggregate: {n: "max(n)", sent: "max(sent)"}, key: [user], input: count}
queries: {counts: {input: largest, sink: {topic: $topic-out}}}
placement: {units: [[events], [count], [largest], [counts]]}
fault_tolerance: {default: {scheme: $scheme}}
"""
)
"""Source, two units with state, sink, on a worker each."""
SIZED = Template(
    _EVENTS
    + """
operators: {count: {aggregate: {n: "count()", sent: "max(amount)"}, key: [user], input: events}}
queries: {counts: {input: count, sink: {topic: $topic-out}}}
placement: {units: [[events], [count], [counts]]}
fault_tolerance: {default: {scheme: hybrid}}
"""
)
PROMISED = Template(
    COUNT.template.replace("$topic-out", "$topic-out-$promise_ms")
    + """
batch_interval_ms: $interval_ms
fault_tolerance: {default: {scheme: adaptive}, recovery_time_ms: $promise_ms, cool_down_s: $cool_down_s}
"""
)
"""A unit whose scheme recovery chooses."""
STEADY = Template(FAILOVER.template.replace("{default", "{hybrid: {inputs: $inputs}, default"))
PASSING = Template(
    _EVENTS
    + """
operators:
  first: {filter: "amount >= 0", input: events}
  second: {filter: "amount >= 0", input: first}
  count: {aggregate: {n: "count()"}, key: [user], input: second}
queries: {counts: {input: count, sink: {topic: $topic-out}}}
placement: {units: [[events], [first], [second], [count, counts]]}
fault_tolerance: {hybrid: {inputs: $inputs}, default: {scheme: $scheme}}
"""
)
"""Source, two units that pass every row on, and one with state, on a worker each."""

OUTAGES = Template(
    _EVENTS.replace("sources:", "batch_interval_ms: $interval_ms\nsources:")
    + """
operators:
  seconds:
    aggregate: {n: "count()", total: "sum(amount)"}
    key: [user]
    window: {size_s: 0.2}
    emit: final
    input: events
    parallelism: 2
  even: {filter: "total % 2 = 0", input: seconds, parallelism: 1}
queries: {all: {input: even, results: tentative, sink: {topic: $topic-out}}}
placement: {units: [[events], [seconds], [even, all]]}
fault_tolerance:
  default: {scheme: passive}
  checkpoint: {interval_ms: 500}
  correlated_failure: {workers: 1}
"""
)
"""Rows of windows of 200 ms, also while units are out; of a row of incomplete input the final one may be none."""


def merging(sources: int) -> Template:
    """Sources that merge in pairs down to one aggregate, a unit each; half of the units may have a replica that
    processes.
    """
    return Template(
        f"{_merging(sources, 'key: [user]')}"
        """
queries: {counts: {input: one, sink: {topic: $topic-out}}}
fault_tolerance: {default: {scheme: passive}, replication_budget: 0.5}
"""
    )


def tree(sources: int) -> Template:
    """Merging sources with rows of windows of 200 ms, also while units are out.

    `$budget` is the share of the units that may have a replica. `$together` is the number of workers whose joint
    failure makes their units wait for slots.
    """
    return Template(
        f"{_merging(sources, 'key: [user], window: {size_s: 0.2}, emit: final')}"
        """
queries: {counts: {input: one, results: tentative, sink: {topic: $topic-out}}}
fault_tolerance:
  default: {scheme: passive}
  replication_budget: $budget
  checkpoint: {interval_ms: $checkpoint_ms}
  correlated_failure: {workers: $together}
"""
    )


def _merging(sources: int, last: str) -> str:
    names, degrees = ["events"], [sources]
    while degrees[-1] > 2:
        degrees.append(degrees[-1] // 2)
        names.append(f"merge{degrees[-1]}")
    filters = [
        f'  {name}: {{filter: "amount >= 0", input: {before}, parallelism: {degree}}}'
        for before, name, degree in zip(names, names[1:], degrees[1:], strict=False)
    ]
    one = f'  one: {{aggregate: {{n: "count()", total: "sum(amount)"}}, {last}, input: {names[-1]}, parallelism: 1}}'
    head = _EVENTS.replace("sources:", "batch_interval_ms: $interval_ms\nsources:").replace("$tasks", str(sources))
    return "\n".join([head + "\noperators:", *filters, one])


def key(index: int, keys: int) -> bytes:
    return b"user-%d" % (index * 7919 % keys)


def record(index: int, keys: int, time_ms: int) -> bytes:
    """Every key once in each `keys` records, in a scattered order."""
    return b'{"user":"user-%d","amount":%d,"at":%d}' % (index * 7919 % keys, index % 100, time_ms)


def within(job: Template, latency_ms: int) -> Template:
    """The job with a latency budget."""
    return Template(f"latency_ms: {latency_ms}\n{job.template}")


def unprotected(text: str) -> str:
    """The job file with no standby for units unless it sets one: a bench measures protection only where it is named."""
    return text if "fault_tolerance:" in text else f"{text}\nfault_tolerance: {{default: {{scheme: none}}}}\n"


def under(job: Template, scheme: str) -> Template:
    """The job with all units under one scheme; the adaptive one has an hour's cool-down."""
    promise = ", recovery_time_ms: 10000, cool_down_s: 3600" if scheme == "adaptive" else ""
    return Template(f"{job.template}fault_tolerance: {{default: {{scheme: {scheme}}}{promise}}}\n")
