"""Faults drawn from a seed: kinds, targets, lengths."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from holdfast.schemas.job_settings import POLICY_NAMES
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES
from tests.simulation.faults import midway, strangers
from tests.simulation.faults.fault import Fault, Roles
from tests.simulation.faults.hosts import MIN_RESTART_MS
from tests.simulation.faults.moments import STRIKES
from tests.simulation.profiles import Profile
from tests.support.odd import ODD

Drawn = tuple[float, str, Callable[[str], Fault]]

RECORDS = ("checkpoints", "checkpoints", "cuts", "data", "delivered", "progress", "assignments")
STALE = ("assignments", "cuts", "checkpoints", "submit", "plans")
LED = ("", "", "delivered", "delivered", "checkpoints", "cuts", "data", "source", "progress", "assignments")
DIRECTED = 4
"""Weight, where a profile asks for them, of the kinds that the ordinary histories are drawn without."""
STRUCK = ("checkpoints", "checkpoints", "delivered", "delivered", "cuts", "data")
LAGS = ("assignments in", "assignments in", "checkpoints in", "cuts in", "data out", "data in", "checkpoints out")


def draw_faults(random: Random, roles: Roles, from_ms: int, until_ms: int, profile: Profile) -> list[Fault]:
    """A few faults, in bursts more often than alone."""
    faults: list[Fault] = []
    pause_ms = random.choice((400, 1_000, 3_000))
    at_ms = from_ms
    while True:
        soon = random.random() < 0.5
        at_ms += profile.pause_ms + (random.randint(0, 300) if soon else int(random.expovariate(1 / pause_ms)))
        if at_ms >= until_ms:
            return faults
        faults.append(_draw(random, at_ms, roles, profile))


def _draw(random: Random, at_ms: int, roles: Roles, profile: Profile) -> Fault:
    """Lengths from a blink to beyond the fail-stop time-out."""
    ms = random.choice((random.randint(MIN_RESTART_MS, 400), random.randint(200, 1_500), random.randint(1_000, 6_000)))
    worker, anyone = (random.choice(roles.workers),), (random.choice(roles.all),)
    others = tuple(random.sample(roles.workers, random.randint(1, len(roles.workers))))
    notice = random.choice(("", "", "silent"))

    def of(kind: str, target: tuple[str, ...] = (), ms: int = 0, detail: str = "", count: int = 1) -> Fault:
        return Fault(at_ms, kind, target, ms, detail, count)

    drawn: tuple[Drawn, ...] = (
        (6, "crash", lambda kind: of(kind, worker, ms, notice)),
        (6, "crash-at", lambda kind: of(kind, worker, ms, random.choice(RECORDS), random.randint(1, 12))),
        (
            0,
            "strike",
            lambda kind: of(kind, worker, min(ms, 1_500), _draw_strike(random, profile), random.randint(1, 12)),
        ),
        (0, "lag", lambda kind: of(kind, worker, min(ms, 1_500), random.choice(profile.lags or LAGS))),
        (1, "crash", lambda kind: of(kind, others, ms, notice)),
        (2, "crash", lambda kind: of(kind, (random.choice(roles.replicas + roles.controllers),), ms)),
        (6, "stall", lambda kind: of(kind, worker, ms)),
        (1, "stall", lambda kind: of(kind, others, ms)),
        (1, "stall", lambda kind: of(kind, anyone, ms)),
        (1, "slow", lambda kind: of(kind, anyone, ms)),
        (1, "stuck-loop", lambda kind: of(kind, worker, ms)),
        (2, "lost-heartbeats", lambda kind: of(kind, worker, ms)),
        (1, "late-heartbeats", lambda kind: of(kind, worker, ms)),
        (3, "cut", lambda kind: of(kind, worker, ms, random.choice(("both", "in", "out")))),
        (1, "cut", lambda kind: of(kind, anyone, ms, random.choice(("both", "in", "out")))),
        (1, "outage", lambda kind: of(kind, (), min(ms, 2_000))),
        (1, "clock", lambda kind: of(kind, anyone, 0, "", random.choice((-3_600_000, -500, 500, 3_600_000)))),
        (4, "command", lambda kind: of(kind, (), 0, _draw_scheme(random, roles), random.choice((1, 1, 2)))),
        (1, "command", lambda kind: of(kind, (), 0, random.choice(("pause", "resume")), random.choice((1, 2)))),
        (0.1, "command", lambda kind: of(kind, (), 0, "cancel", random.choice((1, 2)))),
        (1, "resubmit", lambda kind: of(kind)),
        (2, "stale", lambda kind: of(kind, (), 0, random.choice(STALE), random.randint(0, 30))),
    )
    weights = profile.faults
    if not weights:
        ((_, kind, make),) = random.choices(drawn, [weight for weight, _, _ in drawn])
        return make(kind)
    drawn += tuple(row for row in _aimed(random, of, worker, ms, roles, profile) if row[1] in weights)
    # Every candidate is drawn before one is chosen: so another weight changes this choice, and not all that follows.
    made = [make(kind) for _, kind, make in drawn]
    return random.choices(made, [(weight or DIRECTED) * weights.get(kind, 1) for weight, kind, _ in drawn])[0]


def _aimed(
    random: Random, of: Callable[..., Fault], worker: tuple[str, ...], ms: int, roles: Roles, profile: Profile
) -> tuple[Drawn, ...]:
    """Kinds that meet what they wait for in a state of the history; drawn only where a profile names them."""
    return (
        (0, "hung", lambda kind: of(kind, worker)),
        (0, "deadly", lambda kind: of(kind, (), 0, random.choice(roles.units), random.randint(1, 5))),
        (0, "deadly-line", lambda kind: of(kind, (), 0, random.choice(roles.units))),
        (0, "stale-outage", lambda kind: of(kind, (), 0, random.choice(roles.units))),
        (0, "unexpected", lambda kind: of(kind, (), 0, _draw_error(random, roles), random.choice((1, 1, 2, 4)))),
        (0, "killed", lambda kind: of(kind, worker, min(ms, 1_000), "", random.randint(0, 9))),
        (
            0,
            "upgraded",
            lambda kind: of(kind, _but_one(random, roles), 1_500 + min(ms, 3_000), random.choice(("equal", ODD))),
        ),
        (0, "newer", lambda kind: of(kind, worker, min(ms, 1_000), random.choice(("", "silent")))),
        (0, "accept", lambda kind: of(kind)),
        (0, "usurped", lambda kind: of(kind, worker, 400 + min(ms, 1_000))),
        (0, "in-hand", lambda kind: of(kind, (), random.randint(50, 900))),
        (0, "dies-behind", lambda kind: of(kind, worker, random.randint(MIN_RESTART_MS, 300), "data")),
        (0, "half-pasted", lambda kind: of(kind, (), ms)),
        (
            0,
            "leaderless",
            lambda kind: of(
                kind, random.choice((worker, worker, ())), ms, random.choice(profile.led or LED), random.randint(0, 11)
            ),
        ),
        (0, "stranger", lambda kind: of(kind, (), 0, random.choice(strangers.WRITES), random.randint(0, 9))),
        (0, "grown", lambda kind: of(kind, (), ms, random.choice(roles.topics), random.choice((1, 1, 2, 3)))),
        (
            0,
            "outrun",
            lambda kind: of(kind, _one_of(random, roles), 1_000 + ms // 2, random.choice(list(midway.OUTRUN))),
        ),
        (
            0,
            "unserved",
            lambda kind: of(kind, _one_of(random, roles), 1_500 + ms // 2, random.choice(list(midway.ASKED))),
        ),
        (0, "mind-changed", lambda kind: of(kind, (), random.randint(30, 300), _draw_minds(random, roles))),
        (0, "policy-again", lambda kind: of(kind, (), 0, "", random.randint(1, 3))),
        (0, "rollback", lambda kind: of(kind, (), 0, random.choice((*roles.units, "", "")), random.choice((1, 1, 2)))),
        (0, "policy", lambda kind: of(kind, (), 0, _draw_policy(random), random.choice((1, 1, 2)))),
        (0, "move", lambda kind: of(kind, (), 0, _draw_move(random, roles), random.choice((1, 1, 2)))),
        (
            0,
            "replaced",
            lambda kind: of(kind, (), min(ms, 2_000), _draw_renewal(random, roles), random.choice((1, 2, 3))),
        ),
        (0, "sink-gone", lambda kind: of(kind, (), ms, random.choice(roles.sinks))),
        (0, "unplaced", lambda kind: of(kind, worker, random.randint(7_000, 12_000), random.choice(("", "silent")))),
        (
            0,
            "felled",
            lambda kind: of(
                kind,
                _draw_felled(random, roles),
                min(ms, 2_500),
                random.choice(("", "", "silent")),
                random.choice((1, 100, 700)),
            ),
        ),
        (
            0,
            "felled-at-the-end",
            lambda kind: of(
                kind, _draw_felled(random, roles), min(ms, 1_500), random.choice(("1", "1", "2", "3")), 100
            ),
        ),
        (0, "away", lambda kind: of(kind, worker, random.randint(500, 3_000), random.choice(("", "", "", "silent")))),
        (0, "fork-dies", lambda kind: of(kind, (), random.randint(500, 3_000), "", random.randint(1, 400))),
        (0, "retention", lambda kind: of(kind, (), ms, random.choice(roles.topics))),
        (0, "left-behind", lambda kind: of(kind, (), ms)),
        (0, "leave", lambda kind: of(kind, worker, ms)),
        (0, "moving", lambda kind: of(kind, (), ms, _draw_struck_move(random, roles))),
        (0, "drill", lambda kind: of(kind, (), 0, random.choice(roles.units))),
        (0, "reassigning", lambda kind: of(kind, (), min(ms, 1_500), _draw_struck_standby(random, roles))),
        (0, "flapping", lambda kind: of(kind, worker, 3_000 + 2 * ms)),
        (
            0,
            "unreturned",
            lambda kind: of(
                kind, tuple(random.sample(roles.workers, random.randint(1, len(roles.workers)))), 900 + ms // 8
            ),
        ),
        (0, "stood", lambda kind: of(kind, (random.choice(roles.replicas), *worker), 800 + ms // 4)),
        (0, "rolling-back", lambda kind: of(kind, worker, 150 + min(ms, 350), random.choice(list(midway.MIDWAY)))),
    )


def _but_one(random: Random, roles: Roles) -> tuple[str, ...]:
    """Some workers, and not all: where nobody is left with versions that may lead, nothing can be shown."""
    return tuple(random.sample(roles.workers, random.randint(1, max(1, len(roles.workers) - 1))))


def _draw_felled(random: Random, roles: Roles) -> tuple[str, ...]:
    """Several workers, now and then all, and other processes with them."""
    workers = random.sample(roles.workers, random.randint(min(2, len(roles.workers)), len(roles.workers)))
    others = random.sample(roles.replicas + roles.controllers, random.choice((0, 0, 0, 1, 2)))
    return tuple(dict.fromkeys((*workers, *others)))


def _one_of(random: Random, roles: Roles) -> tuple[str, ...]:
    return (random.choice(roles.controllers),)


def _draw_minds(random: Random, roles: Roles) -> str:
    """A unit, the scheme that is asked for, and the one that is asked for soon after."""
    first, then = random.choice(list(SCHEMES)), random.choice((*SCHEMES, *["active-replication"] * len(SCHEMES)))
    return f"{random.choice(roles.units)} {first} {then}"


def _draw_renewal(random: Random, roles: Roles) -> str:
    return f"{random.choice(roles.topics)} {random.choice(('earliest', 'latest'))}"


def _draw_move(random: Random, roles: Roles) -> str:
    """Now and then to a worker that is not there."""
    return f"{random.choice(roles.units)} {random.choice((*roles.workers, *roles.workers, 'w9'))}"


def _draw_struck_move(random: Random, roles: Roles) -> str:
    return f"{_draw_move(random, roles)} {random.choice(list(midway.STRUCK))}"


def _draw_struck_standby(random: Random, roles: Roles) -> str:
    return f"{random.choice(roles.units)} {random.choice(roles.workers)} {random.choice(list(midway.BACKED))}"


def _draw_strike(random: Random, profile: Profile) -> str:
    if profile.strikes:
        return random.choice(profile.strikes)
    return f"{random.choice(STRUCK)} {random.choice(list(STRIKES))}"


def _draw_policy(random: Random) -> str:
    """Now and then one that there is not, or cannot be."""
    settings = {
        "interval_ms": random.choice((50, 100, 300)),
        "min_interval_ms": random.choice((0, 20, 100)),
        "max_interval_ms": random.choice((20, 200, 500)),
        "every_batches": random.choice((0, 1, 2, 5, 10)),
    }
    given = random.sample(sorted(settings), random.randint(0, 2))
    policy = random.choice((*POLICY_NAMES, *POLICY_NAMES, "none-of-ours"))
    return " ".join([policy, *(f"{name}={settings[name]}" for name in given)])


def _draw_error(random: Random, roles: Roles) -> str:
    return f"{random.choice(roles.units)} {random.choice(('batch', 'batch', 'loading', 'restoring'))}"


def _draw_scheme(random: Random, roles: Roles) -> str:
    return f"scheme {random.choice(roles.units)} {random.choice(list(SCHEMES))}"
