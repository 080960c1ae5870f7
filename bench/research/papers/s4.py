"""S4 on the model: sweeping checkpoints compared with checkpoints by timers: kept state, and suspension of a unit."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from bench.model.sweeps import DELIVERY_MS, INTERVAL_MS, POLICIES, UNITS, WRITE_MS, Chain
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.rules import at_least, at_most, within

RATES_PER_S, STATE = (1_000, 4_000, 10_000, 25_000), 20
"""The paper's rates and its state (Z6)."""
SECONDS, SETTLED_S = 12.0, 4.0
SEEDS = tuple(range(1, 9))
SWEEP, SYNCHRONOUS, INDIVIDUAL = POLICIES
OTHERS = (SYNCHRONOUS, INDIVIDUAL)
PAPERS = 10_000
"""The rate of the paper's transient loads (Z4)."""


def modelled(policy: str, rate_per_s: int, seed: int) -> Values:
    """Values of a second: elements in checkpoints, the paper's and ours; checkpoints; and how long one suspends its
    unit.
    """
    made = Chain(policy, rate_per_s / 1000, STATE, seed).run(SECONDS)
    found = [one for one in made.captures if one.at_ms >= SETTLED_S * 1000]
    seconds = SECONDS - SETTLED_S
    return {
        "held_per_s": sum(one.held for one in found) / seconds,
        "state_per_s": sum(one.state for one in found) / seconds,
        "checkpoints_per_s": len(found) / seconds,
        "suspended_ms": fmean(one.took_ms for one in found),
    }


def _key(policy: str, rate_per_s: int, seed: int) -> str:
    return f"{policy} {rate_per_s} {seed}"


def _measure(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        policy, rate, seed = key.split()
        keep(key, modelled(policy, int(rate), int(seed)))


def _mean(data: Data, policy: str, rate_per_s: int, figure: str) -> float:
    return fmean(data[_key(policy, rate_per_s, seed)][figure] for seed in SEEDS)


def _line(data: Data, policy: str, figure: str, name: str = "", *, dashed: bool = False) -> Series:
    points = tuple((float(rate), _mean(data, policy, rate, figure)) for rate in RATES_PER_S)
    return Series(name or policy, points, dashed)


def _plots(data: Data) -> list[Plot]:
    x = "elements/s"
    ours = _line(data, SWEEP, "state_per_s", "sweep, without outputs (ours)", dashed=True)
    held = tuple(_line(data, policy, "held_per_s") for policy in POLICIES)
    suspended = tuple(_line(data, policy, "suspended_ms") for policy in POLICIES)
    return [
        Plot(
            "what checkpoints with outputs hold", x, "elements of checkpoints/s", (*held, ours), log_x=True, log_y=True
        ),
        Plot("how long a checkpoint suspends its unit", x, "mean, ms", suspended, log_x=True, log_y=True),
    ]


def _checks(data: Data) -> list[Check]:
    at = f"at {PAPERS:,} elements/s"
    found = list[Check]()
    for one in OTHERS:
        times = [_over_sweep(data, one, "suspended_ms", rate) for rate in RATES_PER_S]
        slower, more, written = (
            _over_sweep(data, one, figure) for figure in ("suspended_ms", "held_per_s", "state_per_s")
        )
        found += [
            at_least(f"{one} over sweep, time of a checkpoint {at} (the paper: 4)", slower, 4.0),
            at_least(f"{one} over sweep, time of a checkpoint, least of the rates", min(times), 1.0, shape=True),
            at_most(f"sweep over {one}, elements {at} (the paper: .1)", 1 / more, 0.2),
            within(f"sweep over {one}, elements of checkpoints without outputs (ours)", 1 / written, 0.9, 1.1),
        ]
    return found


def _over_sweep(data: Data, policy: str, figure: str, rate_per_s: int = PAPERS) -> float:
    return _mean(data, policy, rate_per_s, figure) / _mean(data, SWEEP, rate_per_s, figure)


S4 = Figure(
    tag="S4",
    title="sweeping checkpoints against synchronous and individual ones",
    paper="Zhang et al. 2010, section III",
    expected="sweeping checkpoints are four times as fast as synchronous and individual ones, with a tenth of their "
    "messages, mainly because they hold less of the output queues.",
    setup=f"a chain of {UNITS} units with a state of {STATE} elements each, an interval of {INTERVAL_MS} ms. When a "
    "unit captures is decided by the policies of the workers. A checkpoint is counted as the paper's, with the output "
    "that no reader has a checkpoint of; an element costs 18.6 microseconds, a checkpoint 1 ms, and an acknowledgement "
    f"comes {WRITE_MS + DELIVERY_MS:g} ms later. `individual` is a timer for each unit, begun at random; `synchronous` "
    f"one timer for all units of a worker. Mean of {len(SEEDS)} seeds of {SECONDS:g} s.",
    ground=Ground.MODEL,
    keys=tuple(_key(policy, rate, seed) for policy in POLICIES for rate in RATES_PER_S for seed in SEEDS),
    measure=_measure,
    plots=_plots,
    checks=_checks,
    seconds=30,
    differs="The paper's synchronous checkpoints suspend all tasks of a unit by one timer of the unit: that is "
    "`individual` here, where a unit is captured as a whole. Its individual ones have a timer for each task, which "
    "does not exist here. Our checkpoints hold no output, since outputs stay in their topics, so that the policies do "
    "not differ in what they write (the dashed line and the last rules); sweeps let topics be trimmed sooner.",
)
