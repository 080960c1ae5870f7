"""W8 and W9: expected recovery and latency while the load of a worker rises from nothing to 90 %. On the model."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from statistics import fmean

from bench.model.cluster import Cluster, Settings
from bench.model.loads import SLICE_MS, added
from bench.model.streams import FULL, even, names, ramp, whole
from bench.model.units import Unit, of
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.rules import at_least, at_most, below, within

SERVERS = 5
RAMP_S, SECONDS = 150, 200
SEED = 1
ROBIN, MINMAX, WHOLE, ACTIVE = "round-robin", "min-max", "whole worker", "active standby"
POLICIES: Mapping[str, str] = {ROBIN: "idle-roundrobin", MINMAX: "idle-minmax", WHOLE: "idle-roundrobin"}
WITHOUT = "none and active standby"
OURS = "min-max, captures in pieces"
"""Name of Holdfast's captures: data wait only for a piece of a capture, not for all of it."""
PIECE_MS = 1.0


def units() -> list[Unit]:
    chance = random.Random(SEED)
    return even(names(SERVERS), lambda: ramp(RAMP_S, SECONDS, chance))


def modelled(line: str, seconds: int = SECONDS) -> tuple[Values, Values]:
    """By second, over all workers: the mean of R in ms, and the longest wait of a tuple in ms."""
    servers, all_units = names(SERVERS), units()
    policy = POLICIES.get(line, POLICIES[MINMAX])
    chosen = whole(all_units, servers) if line == WHOLE else all_units
    settings = Settings(policy, defers=line != OURS, sample_ms=SLICE_MS)
    cluster = Cluster(settings, chosen, servers).run(seconds * 1000)
    expected = {_second(one.at_ms): fmean(one.workers.values()) for one in cluster.samples}
    waited = {_second(one.at_ms): max(one.latency_ms.values()) for one in cluster.samples}
    if line == OURS:
        waited = {at: ms + PIECE_MS for at, ms in waited.items()}
    return expected, waited


def lagging(seconds: int = SECONDS) -> Values:
    """Active standby, by second: what a backup is behind, ms. It processes as much as its primary, after its own."""
    own = added([unit.load for unit in of(units(), names(SERVERS)[0])])
    found, behind_ms = Values(), 0.0
    for second in range(seconds):
        share = own.at(second * SLICE_MS)
        behind_ms = max(0.0, behind_ms + (share - max(0.0, 1.0 - share)) * SLICE_MS)
        found[_second((second + 1) * SLICE_MS)] = behind_ms
    return found


def unhindered(seconds: int = SECONDS) -> Values:
    """The longest wait of a tuple without checkpoints, by second, in ms."""
    own = added([unit.load for unit in of(units(), names(SERVERS)[0])])
    found, backlog_ms = Values(), 0.0
    for second in range(seconds):
        backlog_ms = max(0.0, backlog_ms + (own.at(second * SLICE_MS) - 1.0) * SLICE_MS)
        found[_second((second + 1) * SLICE_MS)] = backlog_ms
    return found


def _second(at_ms: float) -> str:
    return f"{at_ms / 1000:g}"


def _series(name: str, values: Values, every: int = 2) -> Series:
    points = sorted((float(at), value) for at, value in values.items())
    return Series(name, tuple(points[every - 1 :: every]))


# -- W8 ---------------------------------------------------------------------------------------------------------------


def _measure_recovery(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        keep(key, lagging() if key == ACTIVE else modelled(key)[0])


def _plots_recovery(data: Data) -> list[Plot]:
    lines = tuple(_series(key, data[key]) for key in (WHOLE, ROBIN, MINMAX))
    active = Series(ACTIVE, tuple((x, y) for x, y in _series(ACTIVE, data[ACTIVE]).points if y <= 4_000), dashed=True)
    title = "type 1 rises until 150 s, then it is bursty"
    return [Plot(title, "time, s", "expected recovery time, ms", (*lines, active))]


def _checks_recovery(data: Data) -> list[Check]:
    lines = {key: _series(key, data[key]) for key in data}
    late = {key: [y for x, y in series.points if x > RAMP_S / 2] for key, series in lines.items()}
    half = [(x, y) for x, y in lines[ACTIVE].points if y > 0.0]
    busy = 100 * FULL * half[0][0] / RAMP_S if half else math.inf
    ratio = fmean(late[MINMAX]) / fmean(late[ROBIN])
    to_whole = fmean(late[ROBIN]) / fmean(late[WHOLE])
    at_end = lines[ACTIVE].points[-1][1] / max(late[WHOLE])
    return [
        below(lines[MINMAX], lines[ROBIN]),
        below(lines[ROBIN], lines[WHOLE], 0.9),
        within("active standby: load of a worker when its backup falls behind, %", busy, 45, 60, shape=True),
        at_least("active standby at the end over the largest of whole worker", at_end, 1.0, shape=True),
        at_most("above half of the load, mean: min-max over round-robin", ratio, 1.0),
        at_most("above half of the load, mean: round-robin over whole worker", to_whole, 1.0),
    ]


W8 = Figure(
    tag="W8",
    title="expected recovery time while the load rises",
    paper="Hwang et al. 2007, figure 8",
    expected="min-max below round-robin below whole-worker checkpoints; active standby falls behind past 50 % load.",
    setup=f"{SERVERS} workers of 8 units; type 1 rises from 0 to 2K tuples/s in {RAMP_S} s, then it is bursty "
    "(standard deviation 0.7K); type 2 is 100 tuples/s. A worker is then 90 % busy. Backups go round the peers; a "
    "whole worker is one unit with one backup. Costs of captures and pastes are the paper's c_f, c_p (C10).",
    ground=Ground.MODEL,
    keys=(WHOLE, ROBIN, MINMAX, ACTIVE),
    measure=_measure_recovery,
    plots=_plots_recovery,
    checks=_checks_recovery,
    seconds=30,
)

# -- W9 ---------------------------------------------------------------------------------------------------------------


def _measure_latency(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        keep(key, unhindered() if key == WITHOUT else modelled(key)[1])


def _plots_latency(data: Data) -> list[Plot]:
    lines = tuple(_series(key, data[key], every=1) for key in data)
    return [Plot("longest wait of a tuple within each second", "time, s", "wait before processing, ms", lines)]


def _checks_latency(data: Data) -> list[Check]:
    """Checks while the load rises: later bursts above the CPU's capacity make tuples wait under any policy."""
    spikes = {key: _spike(values) for key, values in data.items()}
    adds = [data[OURS][at] - ms for at, ms in data[WITHOUT].items() if float(at) <= RAMP_S]
    return [
        below(_series(MINMAX, data[MINMAX], 1), _series(WHOLE, data[WHOLE], 1), 0.6),
        at_most(
            "spikes (95th percentile while the load rises): min-max over whole worker",
            spikes[MINMAX] / spikes[WHOLE],
            0.25,
        ),
        at_most("spikes: round-robin over whole worker", spikes[ROBIN] / spikes[WHOLE], 0.25),
        at_most("spikes: captures in pieces over whole worker", spikes[OURS] / spikes[WHOLE], 0.25),
        at_most(
            "spikes without checkpoints, ms, over those of min-max", spikes[WITHOUT] / spikes[MINMAX], 0.5, shape=True
        ),
        at_most("most that captures in pieces add to no checkpoints, ms", max(adds), 5.0),
    ]


def _spike(values: Values) -> float:
    rising = sorted(ms for at, ms in values.items() if RAMP_S / 2 < float(at) <= RAMP_S)
    return rising[round(0.95 * (len(rising) - 1))]


W9 = Figure(
    tag="W9",
    title="how long tuples wait while checkpoints are taken",
    paper="Hwang et al. 2007, figure 9",
    expected="spikes of fine-grained captures far below those of whole-worker checkpoints; round-robin as min-max. "
    "Active standby is as without any method: its backups give way to the primaries. A capture may be aborted when a "
    "burst comes.",
    setup="as W8. A capture defers data until it ends, as in the paper; the fourth line is how our workers capture, in "
    "pieces of 1 ms that give way to data, so that a burst never waits for the rest of a capture and none is aborted.",
    ground=Ground.MODEL,
    keys=(WHOLE, ROBIN, MINMAX, OURS, WITHOUT),
    measure=_measure_latency,
    plots=_plots_latency,
    checks=_checks_latency,
    seconds=40,
)
