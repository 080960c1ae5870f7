"""Faults drawn from a seed, and how each is done to a cluster.

Source: PROTOCOL 13. To add a kind of fault, add one row to KINDS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from holdfast.schemas import assignments, cuts
from holdfast.schemas.cuts import Raised
from holdfast.schemas.heartbeats import At
from holdfast.schemas.job_settings import POLICY_NAMES
from holdfast.schemas.topics import Partition
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES
from holdfast.services.worker.core.tentative import State
from tests.simulation.faults import losses, midway, renewals, strangers
from tests.simulation.faults.retention import felled_at_the_end
from tests.simulation.kafka.names import TOPICS, kind_of
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.hosts import HostProcess, WorkerProcess
from tests.simulation.processes.jobs import NAME, draw_growth
from tests.simulation.processes.services import ODD_VERSIONS, OTHER_VERSIONS, Process
from tests.simulation.profiles import Profile
from tests.support.odd import ODD

MIN_RESTART_MS, UPGRADE_MS, FORK_DEAD_MS = 30, 200, 300
ACCEPTED_US = 2_000_000
"""By then a command `accept` is answered."""
LEAVE_MS, LOOK_US = 600, 5_000
THAWED_WITHIN_MS = 150
"""Longer than an assignment takes to follow an exit notice, and too short for the silence to count as a stop."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault. target: names of processes. ms: how long, or until the restart. detail, count: as the kind has it."""

    at_ms: int
    kind: str
    target: tuple[str, ...] = ()
    ms: int = 0
    detail: str = ""
    count: int = 1

    def __str__(self) -> str:
        parts = [self.kind, *self.target, self.detail, f"x{self.count}" if self.count != 1 else ""]
        return " ".join(part for part in parts if part) + (f" for {self.ms} ms" if self.ms else "")


@dataclass(frozen=True, slots=True)
class Roles:
    """Whom a fault can hit. topics: of the user, which may grow; sinks: those that the job writes."""

    workers: tuple[str, ...]
    replicas: tuple[str, ...]
    controllers: tuple[str, ...]
    units: tuple[str, ...]
    topics: tuple[str, ...]
    sinks: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return self.workers + self.replicas + self.controllers


# -- how a fault is done ----------------------------------------------------------------------------------------------


def _crash(cluster: Cluster, fault: Fault) -> None:
    """detail "silent": nobody reports the exit."""
    for name in fault.target:
        cluster.crash(name, fault.ms, notice=fault.detail != "silent")


def _crash_at(cluster: Cluster, fault: Fault) -> None:
    """At the count-th record that arrives on a topic of that kind."""
    name = fault.target[0]
    process = cluster.processes.get(name)
    if process is None or not process.alive:
        return
    left = fault.count

    def appended(partition: Partition, value: bytes) -> None:
        nonlocal left
        if kind_of(partition.topic) == fault.detail:
            left -= 1
            if left == 0:
                cluster.story.tell(f"{name} dies at a record of {fault.detail}")
                cluster.crash(name, fault.ms, notice=True)

    process.link.appended = appended


def _strike(cluster: Cluster, fault: Fault) -> None:
    """detail: a kind of topic, and what happens at the count-th record that arrives there: a row of STRIKES."""
    name, (kind, strike) = fault.target[0], fault.detail.split(" ")
    process = cluster.processes.get(name)
    if process is None or not process.alive:
        return
    left = fault.count

    def appended(partition: Partition, value: bytes) -> None:
        nonlocal left
        if kind_of(partition.topic) == kind:
            left -= 1
            if left == 0:
                cluster.story.tell(f"{name}: {strike} at a record of {kind}")
                STRIKES[strike](cluster, fault, partition, value)

    process.link.appended = appended


def _again(cluster: Cluster, fault: Fault, partition: Partition, value: bytes) -> None:
    """The record is there twice, as a producer without idempotence leaves it; transactions are never without."""
    if kind_of(partition.topic) != "delivered":
        cluster.broker.put(partition, value, None, None)


def _lag(cluster: Cluster, fault: Fault) -> None:
    """detail: a kind of topic whose records wait, and which way: "in" those read, "out" those appended."""
    kind, way = fault.detail.split(" ")
    _during(lambda p: p.link.lagging.add((kind, way)), lambda p: p.link.catch_up(kind, way))(cluster, fault)


def _during(begin: Callable[[Process], None], end: Callable[[Process], None]) -> Callable[[Cluster, Fault], None]:
    """Something that begins, and ends after fault.ms, unless the process is gone by then."""

    def do(cluster: Cluster, fault: Fault) -> None:
        for name in fault.target:
            process = cluster.processes.get(name)
            if process is not None and process.alive:
                begin(process)
                cluster.timeline.after(fault.ms * 1000, lambda process=process: end(process))  # type: ignore[misc]

    return do


def _slow(process: Process) -> None:
    process.link.slowness, process.step_us = 10, 2_000


def _fast(process: Process) -> None:
    process.link.slowness, process.step_us = 1, 50


def _stall(cluster: Cluster, fault: Fault) -> None:
    _during(lambda p: p.freeze(), lambda p: p.thaw())(cluster, fault)


def _set_stuck(stuck: bool) -> Callable[[Process], None]:
    def do(process: Process) -> None:
        assert isinstance(process, HostProcess)
        process.stuck = stuck or process.hung

    return do


def _hang(cluster: Cluster, fault: Fault) -> None:
    for name in fault.target:
        cluster.hang(name)


def _deadly(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit, one in a history, whose work ends every worker from count batches on."""
    reports = [
        copy for process in cluster.workers() if process.alive and process.host for copy in process.host.copies()
    ]
    found = [copy for copy in reports if copy.unit.endswith(f"/{fault.detail}")]
    if found and not cluster.deadly:
        last = max(found, key=lambda copy: copy.batch)
        cluster.deadly[last.unit] = last.batch + fault.count


def _unexpected(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit, one in a history, and what its next count copies are at when they meet an error that nobody
    foresaw; loading also needs a new copy."""
    name, what = fault.detail.split(" ")
    hosts = (process.host for process in cluster.workers() if process.alive and process.host)
    units = {copy.unit for host in hosts for copy in host.copies() if copy.unit.endswith(f"/{name}")}
    for unit in sorted(units):
        cluster.errors.ask(unit, what, fault.count)


def _killed(cluster: Cluster, fault: Fault) -> None:
    """While the loop was at some unit's batch: the count-th."""
    process = cluster.processes[fault.target[0]]
    if not isinstance(process, WorkerProcess) or not process.alive or process.host is None:
        return
    running = [copy for copy in process.host.copies() if copy.state == "running"]
    at = tuple(At(copy.unit, copy.batch + 1) for copy in running[fault.count % max(1, len(running)) :][:1])
    cluster.crash(process.name, fault.ms, notice=True, at=at)


def _upgraded(cluster: Cluster, fault: Fault) -> None:
    """The worker comes back with other versions of libraries, for so long; once all units have had a leader. detail:
    whether these give equal bytes.
    """
    odd, now_us = fault.detail == ODD, cluster.timeline.now_us
    accepting = cluster.accepted_us >= 0 and now_us - cluster.accepted_us < ACCEPTED_US
    if not cluster.placed or (odd and accepting):
        if cluster.healed_us is None:
            cluster.timeline.after(UPGRADE_MS * 1000, lambda: _upgraded(cluster, fault))
        return
    for name in fault.target:
        cluster.upgraded[name] = ODD_VERSIONS if odd else OTHER_VERSIONS
        cluster.crash(name, UPGRADE_MS, notice=True)
        cluster.timeline.after(fault.ms * 1000, lambda name=name: _downgraded(cluster, name))  # type: ignore[misc]


def _accept(cluster: Cluster, fault: Fault) -> None:
    """The user lets the versions lead that run now, none of which gives other bytes."""
    if cluster.placed and ODD_VERSIONS not in (process.versions for process in cluster.workers()):
        cluster.accepted_us = cluster.timeline.now_us
        cluster.submit({"command": "accept", "job": NAME})


def _newer(cluster: Cluster, fault: Fault) -> None:
    """The worker comes back with the release that reads the newest format, for good."""
    for name in fault.target:
        if name in cluster.old:
            cluster.old.discard(name)
            cluster.crash(name, fault.ms, notice=fault.detail == "")


def _downgraded(cluster: Cluster, name: str) -> None:
    if name in cluster.upgraded:
        del cluster.upgraded[name]
        cluster.crash(name, UPGRADE_MS, notice=True)


def _set_mute(mute: bool) -> Callable[[Process], None]:
    def do(process: Process) -> None:
        assert isinstance(process, HostProcess)
        process.mute = mute

    return do


def _flap(cluster: Cluster, fault: Fault) -> None:
    """Silent for a second, heard for half of one, and so on for fault.ms, or until all faults end."""
    mute = partial(_during(_set_mute(True), _set_mute(False)), cluster, replace(fault, ms=FLAP_MS * 2 // 3))
    for at_ms in range(0, fault.ms, FLAP_MS):
        cluster.timeline.after(at_ms * 1000, lambda: mute() if cluster.healed_us is None else None)


def _set_late(late_us: int) -> Callable[[Process], None]:
    def do(process: Process) -> None:
        assert isinstance(process, HostProcess)
        process.late_us = late_us

    return do


def _cut(cluster: Cluster, fault: Fault) -> None:
    """detail: both, out (what it sends is lost) or in (what it asks for is)."""
    sends, hears = fault.detail == "in", fault.detail == "out"
    _during(lambda p: p.link.cut(sends, hears), lambda p: p.link.cut(True, True))(cluster, fault)


def _outage(cluster: Cluster, fault: Fault) -> None:
    cluster.set_available(False)
    cluster.timeline.after(fault.ms * 1000, lambda: cluster.set_available(True))


def _clock(cluster: Cluster, fault: Fault) -> None:
    for name in fault.target:
        if name in cluster.processes:
            cluster.processes[name].clock_ahead_ms += fault.count


def _command(cluster: Cluster, fault: Fault) -> None:
    """detail: the command, for `scheme` with unit and scheme. count: it is sent so often."""
    command, *rest = fault.detail.split(" ")
    record: dict[str, str] = {"command": command, "job": NAME}
    if rest:
        record |= {"unit": rest[0], "scheme": rest[1]}
    for _ in range(fault.count):
        cluster.submit(record)


def _policy(cluster: Cluster, fault: Fault) -> None:
    """detail: a checkpoint policy, and settings as `name=value`. count: it is sent so often."""
    policy, *settings = fault.detail.split(" ")
    given = {name: int(value) for name, _, value in (one.partition("=") for one in settings)}
    for _ in range(fault.count):
        cluster.submit({"command": "checkpoint", "job": NAME, "policy": policy, **given})


def _policy_again(cluster: Cluster, fault: Fault) -> None:
    """The count-th last answer to a command for a checkpoint policy is there once more."""
    there = [one for one in cluster.broker.written if one.partition.topic == TOPICS.assignments]
    old = [one for one in there if assignments.decode(one.value).policies]
    if len(old) > fault.count and cluster.broker.available:
        cluster.broker.author = "stale"
        cluster.broker.put(old[-1 - fault.count].partition, old[-1 - fault.count].value, None, None)


def _rollback(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit, or nothing for all of them."""
    for _ in range(fault.count):
        cluster.submit({"command": "rollback", "job": NAME, "unit": fault.detail})


def _move(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit and a worker."""
    unit, worker = fault.detail.split(" ")
    for _ in range(fault.count):
        cluster.submit({"command": "move", "job": NAME, "unit": unit, "worker": worker})


def _drill(cluster: Cluster, fault: Fault) -> None:
    """detail: a unit."""
    cluster.submit({"command": "drill", "job": NAME, "unit": fault.detail})


def _leave(cluster: Cluster, fault: Fault) -> None:
    """SIGTERM: it ends once it leads nothing, or ms later, and is started again."""
    process = cluster.processes[fault.target[0]]
    until_us = cluster.timeline.now_us + max(fault.ms, LEAVE_MS) * 1000
    if not isinstance(process, HostProcess) or not process.alive or process.host is None:
        return
    process.host.leaving = True

    def look() -> None:
        if not process.leaving or process.host is None:
            return
        if process.frozen or (process.host.leads and cluster.timeline.now_us < until_us):
            cluster.timeline.after(LOOK_US, look)
        else:
            cluster.story.tell(f"{process.name} ends, leading {_commits(process)}")
            cluster.crash(process.name, MIN_RESTART_MS, notice=True)

    look()


def _resubmit(cluster: Cluster, fault: Fault) -> None:
    cluster.submit(cluster.job.spec)


def _stale(cluster: Cluster, fault: Fault) -> None:
    """An old record of a decided topic is there once more, as a producer without idempotence leaves it."""
    old = [w for w in cluster.broker.written if kind_of(w.partition.topic) == fault.detail]
    if old and cluster.broker.available:
        one = old[-1 - min(fault.count, len(old) - 1)]
        if cluster.broker.has(one.partition):
            cluster.broker.author = "stale"
            cluster.broker.put(one.partition, one.value, None, None)


def _usurped(cluster: Cluster, fault: Fault) -> None:
    """The target is not heard, and does not hear who takes over from it; the others are slow at that."""
    others = replace(fault, target=tuple(w.name for w in cluster.workers() if w.name not in fault.target))
    _during(_set_mute(True), _set_mute(False))(cluster, fault)
    _lag(cluster, replace(fault, detail="assignments in"))
    _during(_slow, _fast)(cluster, others)


def _in_hand(cluster: Cluster, fault: Fault) -> None:
    """The next record that code raised comes late; its author is not heard meanwhile, and another one takes over."""
    waiting = [True]

    def watch(process: WorkerProcess, appender: Any) -> None:
        append = appender.append

        def watched(partition: Partition, value: bytes | None, **rest: Any) -> None:
            if partition.topic.endswith(".cuts") and waiting and isinstance(cuts.decode(value or b""), Raised):
                waiting.clear()
                cluster.story.tell(f"{process.name} has a record of code that raised in hand")
                author = replace(fault, target=(process.name,))
                _lag(cluster, replace(author, detail="cuts out"))
                _lag(cluster, replace(author, detail="assignments in"))
                _during(_set_mute(True), _set_mute(False))(cluster, author)
            append(partition, value, **rest)

        appender.append = watched

    for process in cluster.workers():
        if process.alive and process.worker is not None:
            watch(process, process.worker._appender)


def _dies_behind(cluster: Cluster, fault: Fault) -> None:
    """detail: a kind of topic for which nothing leaves the target any more; ms later it dies, and all that is lost."""
    process = cluster.processes[fault.target[0]]

    def dies() -> None:
        if cluster.processes[process.name] is process and (fault.detail, "out") in process.link.lagging:
            cluster.crash(process.name, fault.ms, notice=True)

    if process.alive:
        process.link.lagging.add((fault.detail, "out"))
        cluster.timeline.after(fault.ms * 1000, dies)


def _half_applied(cluster: Cluster, fault: Fault) -> None:
    """The first copy that is seen with a run half in its image stalls, and the leader dies.

    For ms work takes so long that a run needs many turns.
    """
    until_us = cluster.timeline.now_us + fault.ms * 1000
    for process in cluster.workers():
        process.step_us = 1_500

    def look() -> None:
        applying = next((found for found in cluster.workers() if _applied_half(found)), None)
        if applying is not None:
            unit = _applied_half(applying)[0]
            cluster.story.tell(f"{applying.name} has half a run of {unit} in its image")
            _stall(cluster, replace(fault, target=(applying.name,), ms=THAWED_WITHIN_MS))
            for other in cluster.workers():
                if other is not applying and unit in _commits(other):
                    cluster.crash(other.name, fault.ms, notice=True)
        elif cluster.timeline.now_us < until_us:
            cluster.timeline.after(1_000, look)

    look()


def _applied_half(process: WorkerProcess) -> list[str]:
    """The units whose suspended copies there have part of a run in their image."""
    copies = process.worker._copies.here if process.worker is not None and process.alive and not process.frozen else {}
    running = [(unit, copy.running) for unit, copy in copies.items() if copy.running is not None]
    return [unit for unit, one in running if one.suspended and one.checkpoints.checkpointer.applier.halfway]


def _commits(process: HostProcess) -> list[str]:
    copies = process.worker._copies.here if isinstance(process, WorkerProcess) and process.worker is not None else {}
    return [unit for unit, copy in copies.items() if copy.core.flags.commit]


def _grown(cluster: Cluster, fault: Fault) -> None:
    """detail: a user's topic, which gets count partitions more; for ms records come to them."""
    made = cluster.grow(fault.detail, fault.count)
    random = Random(f"{cluster.seed}/grown/{fault.at_ms}")
    for one in draw_growth(random, fault.detail, made, fault.at_ms, fault.at_ms + fault.ms):
        cluster.timeline.at(max(one.at_ms * 1000, cluster.timeline.now_us), lambda one=one: cluster.feed(one))  # type: ignore[misc]


def _fork_dies(cluster: Cluster, fault: Fault) -> None:
    """The first worker that is seen with a fork, within ms, dies count ms later."""
    until_us = cluster.timeline.now_us + fault.ms * 1000

    def look() -> None:
        forked = next((one for one in cluster.workers() if _forked(one)), None)
        if forked is not None:
            cluster.story.tell(f"{forked.name} has forked {' '.join(_forked(forked))}")
            cluster.timeline.after(fault.count * 1000, lambda: cluster.crash(forked.name, FORK_DEAD_MS, notice=True))
        elif cluster.timeline.now_us < until_us:
            cluster.timeline.after(1_000, look)

    look()


def _forked(process: WorkerProcess) -> list[str]:
    """The units that work at tentative batches there."""
    copies = process.worker._copies.here if process.worker is not None and process.alive and not process.frozen else {}
    running = [(unit, copy.running) for unit, copy in copies.items() if copy.running is not None]
    return [unit for unit, one in running if one._line._state.state is State.FORKED]


def _leaderless(cluster: Cluster, fault: Fault) -> None:
    """Nobody leads some partitions for ms; a target is on the machine of the broker that did, and goes with it.

    detail: a kind of topic; of "delivered" those with the target's own positions, else one. Empty: a third of all.
    """
    every = cluster.broker.partitions()
    gone = every[fault.count % BROKERS :: BROKERS]
    if fault.detail:
        kind = [one for one in every if kind_of(one.topic) == fault.detail]
        own = {index for name in fault.target for index in _delivering(cluster.processes[name])}
        gone = [one for one in kind if fault.detail == "delivered" and one.index in own]
        gone = gone or kind[fault.count % max(1, len(kind)) :][:1]
    cluster.lose_leaders(gone, fault.ms)
    for name in fault.target:
        cluster.crash(name, fault.ms, notice=True)


def _delivering(process: Process) -> list[int]:
    """Positions of the units that the process delivers for."""
    worker = process.worker if isinstance(process, WorkerProcess) and process.alive else None
    copies = {} if worker is None else worker._copies.here
    return [copy._layout.unit.partition for copy in copies.values() if copy.core.flags.commit]


STRIKES: Mapping[str, Callable[[Cluster, Fault, Partition, bytes], None]] = {
    "dies": lambda cluster, fault, *_: cluster.crash(fault.target[0], fault.ms, notice=True),
    "stalls": lambda cluster, fault, *_: _stall(cluster, fault),
    "deaf": lambda cluster, fault, *_: _cut(cluster, replace(fault, detail="in")),
    "cut": lambda cluster, fault, *_: _cut(cluster, replace(fault, detail="both")),
    "again": _again,
}


def _stranger(cluster: Cluster, fault: Fault) -> None:
    """detail: what it writes."""
    strangers.write(cluster, fault.detail, fault.count)


def _felled(cluster: Cluster, fault: Fault) -> None:
    """All targets at once; they are back one after the other, count ms apart. detail "silent": nobody reports it."""
    for at, name in enumerate(fault.target):
        cluster.crash(name, fault.ms + at * fault.count, notice=fault.detail != "silent")


KINDS: Mapping[str, Callable[[Cluster, Fault], None]] = {
    "policy": _policy,
    "policy-again": _policy_again,
    "rollback": _rollback,
    "crash": _crash,
    "crash-at": _crash_at,
    "strike": _strike,
    "lag": _lag,
    "stall": _stall,
    "slow": _during(_slow, _fast),
    "stuck-loop": _during(_set_stuck(True), _set_stuck(False)),
    "hung": _hang,
    "deadly": _deadly,
    "unexpected": _unexpected,
    "killed": _killed,
    "upgraded": _upgraded,
    "newer": _newer,
    "accept": _accept,
    "lost-heartbeats": _during(_set_mute(True), _set_mute(False)),
    "flapping": _flap,
    "late-heartbeats": _during(_set_late(250_000), _set_late(0)),
    "cut": _cut,
    "outage": _outage,
    "clock": _clock,
    "command": _command,
    "resubmit": _resubmit,
    "stale": _stale,
    "usurped": _usurped,
    "in-hand": _in_hand,
    "dies-behind": _dies_behind,
    "half-pasted": _half_applied,
    "grown": _grown,
    "leaderless": _leaderless,
    "stranger": _stranger,
    "outrun": midway.outrun,
    "unserved": midway.unserved,
    "mind-changed": midway.mind_changed,
    "rolling-back": midway.rolling_back,
    "move": _move,
    "drill": _drill,
    "leave": _leave,
    "moving": midway.moving,
    "left-behind": midway.left_behind,
    "reassigning": midway.reassigning,
    "replaced": renewals.replaced,
    "sink-gone": renewals.sink_gone,
    "retention": losses.retention,
    "unplaced": _crash,
    "away": _crash,
    "fork-dies": _fork_dies,
    "felled": _felled,
    "felled-at-the-end": felled_at_the_end,
}


# -- how faults are drawn ---------------------------------------------------------------------------------------------

Drawn = tuple[float, str, Callable[[str], Fault]]
FLAP_MS = 1_500
RECORDS = ("checkpoints", "checkpoints", "cuts", "data", "delivered", "progress", "assignments")


STALE = ("assignments", "cuts", "checkpoints", "submit", "plans")
BROKERS = 3
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
