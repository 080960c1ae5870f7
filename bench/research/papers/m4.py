"""M4 to M6: adaptive units on a bursty trace, by the promise and by what resources cost. On the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from statistics import fmean

from bench.model.adapting import Adapted, Look
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.packets import rates
from bench.research.papers.rules import at_least, at_most
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES

SECONDS, SETTLED_S, MEAN_PER_S = 400, 20, 4_000.0
PROMISES_MS = (200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
LEAST_MS = 2_000
"""The paper's shortest threshold: from this promise on none may be broken."""
SEEDS = (1,)
"""Seeds of the phases; the trace is one."""
EVEN, NETWORK = "all resources cost the same", "network costs ten times as much"
HOURS = "workers are paid by the hour"
"""The paper's virtual machines: what runs on one costs nothing more, so that a secondary may as well process."""
WEIGHTS: Mapping[str, Mapping[str, float]] = {
    EVEN: {},
    NETWORK: {"network": 10.0},
    HOURS: {"cpu": 0.0, "memory": 0.0, "network": 0.0},
}
COOL_DOWN_S = 5.0
ORDER = ("passive", "deployed", "passive-cold", "passive-hot", "hybrid", "active-standby", "active-replication")
"""Schemes by the work of the secondary; hybrid detects sooner than passive-hot and uses the same."""
SHOWN_S = 5
"""Between two points of the curves of M4."""
LARGE = 0.25
"""The share of the time in which the state is largest, and in which it is smallest."""


@cache
def looks(promise_ms: int, weights: str, seed: int, seconds: int = SECONDS) -> tuple[tuple[Look, ...], tuple[int, ...]]:
    """Looks at a unit every second once it has settled, and the times of its changes of scheme."""
    unit = Adapted(rates(seconds, MEAN_PER_S), promise_ms, WEIGHTS[weights], seed, COOL_DOWN_S).run(SETTLED_S)
    found = tuple(unit.run(1.0).look() for _ in range(seconds - SETTLED_S))
    return found, tuple(unit.changes_ms)


def summed(found: Sequence[Look], changes_ms: Sequence[int], promise_ms: float) -> Values:
    """Shares of the time by scheme, promises that a failure would have broken, and what the secondary used."""
    shares = {f"share {name}": fmean(look.scheme == name for look in found) for name in SCHEMES}
    gaps_s = [(after - before) / 1000 for before, after in pairwise(changes_ms)]
    promised = [look.takes_ms for look in found if look.protected]
    return shares | {
        "broken": float(sum(takes_ms > promise_ms for takes_ms in promised)),
        "looks": float(len(promised)),
        "protected": len(promised) / len(found),
        "longest_ms": max(promised),
        "level": fmean(ORDER.index(look.scheme) for look in found),
        "cpu": _used("cpu", found),
        "network": _used("network", found),
        "memory": _used("memory", found),
        "changes": float(len(changes_ms)),
        "least_gap_s": min(gaps_s, default=float(SECONDS)),
    }


def _used(kind: str, found: Sequence[Look]) -> float:
    """Use by the secondary, as a share of that of an active one: both grow with the load."""
    mine, active = (sum(look.load * getattr(used, kind) for look, used in pairs) for pairs in _both(found))
    return mine / active if active else 0.0


def _both(found: Sequence[Look]) -> Iterator[list[tuple[Look, object]]]:
    yield [(look, look.used) for look in found]
    yield [(look, look.active) for look in found]


def _key(promise_ms: int, weights: str, seed: int) -> str:
    return f"{promise_ms}, {weights}, {seed}"


def _measure(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        promise_ms, weights, seed = key.split(", ")
        found, changes_ms = looks(int(promise_ms), weights, int(seed))
        keep(key, summed(found, changes_ms, float(promise_ms)))


def _mean(data: Data, promise_ms: int, weights: str, name: str) -> float:
    return fmean(data[_key(promise_ms, weights, seed)][name] for seed in SEEDS)


def _line(data: Data, name: str, weights: str, label: str = "", *, dashed: bool = False) -> Series:
    points = tuple((promise_ms / 1000, _mean(data, promise_ms, weights, name)) for promise_ms in PROMISES_MS)
    return Series(label or name, points, dashed)


_SETUP = (
    "one unit with a window of 40 s over packets at honeypots, a minute of the recording in a second, "
    f"{MEAN_PER_S:g} a second on average, {SECONDS} s. A record of 130 B leaves 25 B of state; a restore reads 5 MB/s "
    "from a log of up to four times the state. Deploy 1 s, send 0.2 s, receive 0.3 s, each within 20 %. Heartbeats "
    f"every 100 ms, late by 150 ms on average for a tenth of the time. Cool-down {COOL_DOWN_S:g} s. What is decided "
    "comes from the core of recovery."
)
PAPER = "Martin et al. 2015, evaluation"

# -- M4 ---------------------------------------------------------------------------------------------------------------

FOLLOWED_MS = 5_000


def _measure_curve(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        found, changes_ms = looks(FOLLOWED_MS, EVEN, int(key))
        shown = found[::SHOWN_S]
        curve = {f"state_mb {look.at_ms // 1000}": look.state_bytes / 1e6 for look in shown}
        curve |= {f"level {look.at_ms // 1000}": float(ORDER.index(look.scheme)) for look in shown}
        keep(key, curve | {"broken": summed(found, changes_ms, FOLLOWED_MS)["broken"]})


def _curve(data: Data, name: str, key: str = "1") -> Series:
    points = ((float(at.split(" ")[1]), value) for at, value in data[key].items() if at.startswith(f"{name} "))
    return Series(name, tuple(sorted(points)))


def _plots_curve(data: Data) -> list[Plot]:
    names = ", ".join(f"{at} {name}" for at, name in enumerate(ORDER))
    state, level = _curve(data, "state_mb"), _curve(data, "level")
    return [
        Plot("the state", "time, s", "state, MB", (Series("state", state.points),)),
        Plot(f"the scheme: {names}", "time, s", "scheme", (Series("scheme", level.points),)),
    ]


def _checks_curve(data: Data) -> list[Check]:
    levels = {"small": list[float](), "large": list[float]()}
    for key in data:
        state, level = dict(_curve(data, "state_mb", key).points), dict(_curve(data, "level", key).points)
        ordered = sorted(state, key=lambda at: state[at])
        count = round(LARGE * len(ordered))
        levels["small"] += [level[at] for at in ordered[:count]]
        levels["large"] += [level[at] for at in ordered[-count:]]
    small, large = fmean(levels["small"]), fmean(levels["large"])
    return [
        at_least("steps between the mean scheme of the largest quarter of states and of the smallest", large - small,
                 0.5, shape=True),
        at_most("failures that would have broken the promise", sum(data[key]["broken"] for key in data), 0, shape=True),
    ]  # fmt: skip


M4 = Figure(
    tag="M4",
    title="the scheme of an adaptive unit over time",
    paper=PAPER,
    expected="the scheme follows the size of the state: cheaper ones while it is small.",
    setup=f"promise {FOLLOWED_MS / 1000:g} s. {_SETUP}",
    ground=Ground.MODEL,
    keys=tuple(map(str, SEEDS)),
    measure=_measure_curve,
    plots=_plots_curve,
    checks=_checks_curve,
    seconds=60,
)

# -- M5 ---------------------------------------------------------------------------------------------------------------


def _plots_shares(data: Data) -> list[Plot]:
    names = tuple(f"{promise_ms / 1000:g}" for promise_ms in PROMISES_MS)
    lines = tuple(
        Series(name, tuple((float(at), y) for at, (_, y) in enumerate(_line(data, f"share {name}", EVEN).points)))
        for name in ORDER
    )
    return [Plot("share of the time in each scheme", "promise, s", "share of the time", lines, names)]


def _checks_shares(data: Data) -> list[Check]:
    level = [_mean(data, promise_ms, EVEN, "level") for promise_ms in PROMISES_MS]
    kept = [p for p in PROMISES_MS if p >= LEAST_MS]
    broken = sum(data[_key(p, EVEN, seed)]["broken"] for p in kept for seed in SEEDS)
    rises = max(after - before for before, after in pairwise(level))
    return [
        at_most("largest rise of the mean scheme from one promise to the next longer one", rises, 0.2, shape=True),
        at_least("steps between the mean scheme at the shortest promise and at the longest", level[0] - level[-1], 3.0,
                 shape=True),
        at_most(f"of {_looks(data, kept)} failures, those that broke a promise of 2 s or more", broken, 0, shape=True),
        at_most("share of failures that broke a promise of 500 ms or 1 s", _share(data, (500, 1_000)), 0.02),
        at_most("share of failures that broke a promise of 200 ms (reported)", _share(data, (200,)), 1.0),
        at_least("least time between two changes, s", min(data[key]["least_gap_s"] for key in data), COOL_DOWN_S,
                 shape=True),
    ]  # fmt: skip


def _share(data: Data, promises_ms: Sequence[int]) -> float:
    return sum(data[_key(p, EVEN, seed)]["broken"] for p in promises_ms for seed in SEEDS) / _looks(data, promises_ms)


def _looks(data: Data, promises_ms: Sequence[int]) -> int:
    return round(sum(data[_key(p, EVEN, seed)]["looks"] for p in promises_ms for seed in SEEDS))


M5 = Figure(
    tag="M5",
    title="time in each scheme, by the promise",
    paper=PAPER,
    expected="the longer the promise, the more time in cheaper schemes; the promise is never broken.",
    setup=f"{_SETUP} A failure is supposed every second: how long the takeover would take is drawn for where the "
    "secondary is then.",
    ground=Ground.MODEL,
    keys=tuple(_key(promise_ms, EVEN, seed) for promise_ms in PROMISES_MS for seed in SEEDS),
    measure=_measure,
    plots=_plots_shares,
    checks=_checks_shares,
    seconds=180,
    differs="Promises of 200 ms to 1 s are ours. Those of 500 ms and 1 s that a failure would have broken are in the "
    "first two seconds of a burst: copies report once a second, so recovery sees a burst a second late.",
)

# -- M6 ---------------------------------------------------------------------------------------------------------------


def _plots_used(data: Data) -> list[Plot]:
    return [
        Plot(
            f"{kind} of the secondary",
            "promise, s",
            "share of an active secondary's",
            tuple(_line(data, kind, name, name, dashed=name != EVEN) for name in WEIGHTS),
            log_x=True,
        )
        for kind in ("cpu", "network")
    ]


def _checks_used(data: Data) -> list[Check]:
    cpu, network = ({name: _line(data, kind, name) for name in WEIGHTS} for kind in ("cpu", "network"))
    dear = [_over(network, NETWORK, promise_s) for promise_s in (0.5, 1.0)]
    sooner = [_mean(data, p, HOURS, "longest_ms") / _mean(data, p, EVEN, "longest_ms") for p in PROMISES_MS]
    return [
        at_most("CPU of the secondary at 2 s, as a share of an active one's", dict(cpu[EVEN].points)[2.0], 0.6,
                shape=True),
        at_most("network of the secondary at 2 s, as a share of an active one's", dict(network[EVEN].points)[2.0], 0.5),
        at_most(f"{NETWORK}: network at .5 and 1 s, over that where all cost the same, mean", fmean(dear), 0.85,
                shape=True),
        at_least(f"{HOURS}: CPU at 2 s, over that where all cost the same", _over(cpu, HOURS, 2.0), 2.0, shape=True),
        at_most("the same weights: longest takeover over that where all cost the same, most of the promises",
                max(sooner), 1.05),
        at_most("the same weights: CPU at 20 s", dict(cpu[HOURS].points)[20.0], 0.1, shape=True),
    ]  # fmt: skip


def _over(lines: Mapping[str, Series], weights: str, promise_s: float) -> float:
    return dict(lines[weights].points)[promise_s] / dict(lines[EVEN].points)[promise_s]


M6 = Figure(
    tag="M6",
    title="what a secondary uses, by the promise and by what resources cost",
    paper=PAPER,
    expected="fewer resources than active replication, the fewer the longer the promise; weights move the choice. "
    "A shorter checkpoint interval makes a replay shorter.",
    setup=_SETUP,
    ground=Ground.MODEL,
    keys=tuple(_key(promise_ms, name, seed) for name in WEIGHTS for promise_ms in PROMISES_MS for seed in SEEDS),
    measure=_measure,
    plots=_plots_used,
    checks=_checks_used,
    seconds=200,
)
