"""The kinds of faults by name.

Source: PROTOCOL 13. To add a kind, add one row to KINDS, and one to the drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.simulation.faults import losses, midway, renewals
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.hosts import (
    clock,
    crash,
    deadly,
    deadly_line,
    during,
    fast,
    felled,
    flap,
    hang,
    killed,
    leave,
    set_late,
    set_mute,
    set_stuck,
    slow,
    stall,
    stand,
    unexpected,
)
from tests.simulation.faults.moments import crash_at, dies_behind, fork_dies, half_applied, in_hand, strike, usurped
from tests.simulation.faults.network import (
    cut,
    grown,
    lag,
    leaderless,
    outage,
    stale,
    stale_outage,
    stranger,
    unreturned,
)
from tests.simulation.faults.people import command, drill, move, policy, policy_again, resubmit, rollback
from tests.simulation.faults.releases import accept, newer, upgraded
from tests.simulation.faults.retention import felled_at_the_end
from tests.simulation.processes.cluster import Cluster

KINDS: Mapping[str, Callable[[Cluster, Fault], None]] = {
    "policy": policy,
    "policy-again": policy_again,
    "rollback": rollback,
    "crash": crash,
    "crash-at": crash_at,
    "strike": strike,
    "lag": lag,
    "stall": stall,
    "stood": stand,
    "slow": during(slow, fast),
    "stuck-loop": during(set_stuck(True), set_stuck(False)),
    "hung": hang,
    "deadly": deadly,
    "deadly-line": deadly_line,
    "unexpected": unexpected,
    "killed": killed,
    "upgraded": upgraded,
    "newer": newer,
    "accept": accept,
    "lost-heartbeats": during(set_mute(True), set_mute(False)),
    "flapping": flap,
    "late-heartbeats": during(set_late(250_000), set_late(0)),
    "cut": cut,
    "outage": outage,
    "unreturned": unreturned,
    "clock": clock,
    "command": command,
    "resubmit": resubmit,
    "stale": stale,
    "stale-outage": stale_outage,
    "usurped": usurped,
    "in-hand": in_hand,
    "dies-behind": dies_behind,
    "half-pasted": half_applied,
    "grown": grown,
    "leaderless": leaderless,
    "stranger": stranger,
    "outrun": midway.outrun,
    "unserved": midway.unserved,
    "mind-changed": midway.mind_changed,
    "rolling-back": midway.rolling_back,
    "move": move,
    "drill": drill,
    "leave": leave,
    "moving": midway.moving,
    "left-behind": midway.left_behind,
    "reassigning": midway.reassigning,
    "replaced": renewals.replaced,
    "sink-gone": renewals.sink_gone,
    "retention": losses.retention,
    "unplaced": crash,
    "away": crash,
    "fork-dies": fork_dies,
    "felled": felled,
    "felled-at-the-end": felled_at_the_end,
}
