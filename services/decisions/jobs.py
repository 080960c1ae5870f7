"""Records of `jobs.plans` and `jobs.submit` that still count, so that snapshots can be written, checked and started
from.

Source: PROTOCOL 1; docs/decisions/0056-snapshots-of-jobs.md. A snapshot holds the records that still count unchanged,
with their offsets and timestamps: a reader that begins with a snapshot is fed these, and needs no other source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

import msgspec

from holdfast.schemas import commands
from holdfast.schemas.commands import Command
from holdfast.schemas.job_settings import POLICY_NAMES, SCHEME_NAMES
from holdfast.schemas.plans import Ended, Kept, Plan, Record, Rejection, Retirement, Snapshot
from holdfast.schemas.retired import Retired, submitted
from holdfast.schemas.topics import generation
from holdfast.services.decisions.admitted import Admitted, decode
from holdfast.services.decisions.past import Past

EVERY, MANY = 200, 100
"""Least number of records of both logs between two snapshots, and number of jobs from which it grows: see `Pace`."""
KEPT_OVER = 50
"""Number of the newest ended or rejected jobs whose plan, counts and reasons are kept, if no setting states it."""
KEPT_BYTES = 2 * 1024 * 1024
"""Largest total size of the records of such jobs, so that snapshots stay small."""
_RETIRED = ""


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A generation.

    records: its records of `jobs.plans` that count, by offset.
    units: names of the units of its plan.
    begins: offset in `jobs.submit` from which commands concern it; None: it stands by.
    """

    job: str
    rejected: bool
    over: bool
    records: tuple[Kept, ...]
    units: frozenset[str] = frozenset()
    begins: int | None = None

    @property
    def bytes(self) -> int:
        return sum(len(one.record) for one in self.records)


class Jobs:
    """Folds `jobs.plans`.

    next: the first offset that is not folded.
    base: the snapshot with which the fold began; None: it began with the first record of the log.
    snapshotted: sum of `upto` and `submit` of the newest snapshot that agrees.
    """

    def __init__(self, base: Snapshot | None = None) -> None:
        self.base = base
        self.next = self.snapshotted = 0
        self.admitted = Admitted(Retired() if base is None else base.retired)
        self._past: Past[KnownJob | Retired] = Past()
        if base is not None:
            for one in base.decisions:
                self._take(one.offset, one.time_ms, one.record.encode())
            self._past.put(base.upto, _RETIRED, base.retired)
            self._past = Past(self._past.now(), base.upto)
            self.next = base.upto
            self.snapshotted = base.upto + base.submit

    def __len__(self) -> int:
        return len(self._past)

    def read(self, offset: int, time_ms: int, value: bytes) -> Record | None:
        """Takes the record at an offset; None if it was read before. Raises msgspec.DecodeError on malformed bytes."""
        if offset < self.next:
            return None
        record = self._take(offset, time_ms, value)
        self.next = offset + 1
        return record

    def _take(self, offset: int, time_ms: int, value: bytes) -> Record:
        record = decode(value)
        if isinstance(record, Snapshot) or not self.admitted.read(record):
            return record
        if isinstance(record, Retirement):
            self._past.put(offset, _RETIRED, self.admitted.retired)
            for key in self._past:
                if key != _RETIRED and self.admitted.retired.has(key):
                    self._past.put(offset, key, None)
            return record
        before, kept = self._past.get(record.generation), Kept(offset, time_ms, value.decode())
        if isinstance(before, KnownJob):  # the record follows a plan: a skip, or its end
            known = replace(before, over=isinstance(record, Ended), records=(*before.records, kept))
            if isinstance(record, Plan):
                known = replace(known, begins=_begins(record))
        else:
            units = frozenset(unit.name for unit in record.units) if isinstance(record, Plan) else frozenset()
            rejected = isinstance(record, Rejection)
            begins = _begins(record) if isinstance(record, Plan) else _offset(record.generation)
            known = KnownJob(record.job, rejected, rejected, (kept,), units=units, begins=begins)
        self._past.put(offset, record.generation, known)
        return record

    def known(self) -> dict[str, KnownJob]:
        """Returns the generations that count."""
        return _known(self._past.now())

    def records(self) -> list[Kept]:
        """Returns the records of `jobs.plans` that count, by offset."""
        return _records(self.known())

    def snapshot(self, submit: int, kept: tuple[Kept, ...], author: str, time_ms: int) -> Snapshot:
        """Returns the snapshot after all folded records.

        submit, kept: offset and kept commands of `jobs.submit`.
        """
        return Snapshot(
            self.next,
            submit,
            tuple(self.records()),
            kept,
            retired=self.admitted.retired,
            author=author,
            time_ms=time_ms,
        )

    def check(self, offset: int, snapshot: Snapshot) -> bool | None:
        """True if the snapshot at this offset agrees with `jobs.plans`; None if it is too old to be checked."""
        if snapshot.upto > offset:
            return False
        then = self._past.as_of(snapshot.upto)
        if then is None:
            return None
        retired = then.get(_RETIRED, Retired())
        return (tuple(_records(_known(then))), retired) == (snapshot.decisions, snapshot.retired)

    def known_then(self, upto: int) -> tuple[dict[str, KnownJob], Retired]:
        """Returns the generations as of a snapshot that agrees."""
        then = self._past.as_of(upto) or {}
        retired = then.get(_RETIRED, Retired())
        assert isinstance(retired, Retired)
        return _known(then), retired

    def to_retire(self, upto: int, most: int | None = None) -> Retired | None:
        """Returns the generations to retire, once half as many again are over as are kept; None: not yet.

        upto: offset of `jobs.submit` below which every job is decided.
        most: number of jobs that are over and kept; None: KEPT_OVER.
        """
        known, most = self.known(), KEPT_OVER if most is None else most
        over = [g for g in sorted(known, key=_offset, reverse=True) if known[g].over and _offset(g) < upto]
        if len(over) <= most + most // 2:
            return None
        kept, size = [g for g in known if not known[g].over and _offset(g) < upto], 0
        for g in over[:most]:
            size += known[g].bytes
            if size <= KEPT_BYTES:
                kept.append(g)
        return Retired(upto, tuple(sorted(kept)))


class Submissions:
    """Folds the needed part of `jobs.submit`: commands that still concern a job, and jobs that are not decided.

    next: the first offset that is not folded.
    since: offset below which only the kept records of `base` are known.
    """

    def __init__(self, base: Snapshot | None = None) -> None:
        self.next = self.since = 0 if base is None else base.submit
        self._decided_upto = 0 if base is None else base.upto
        """Offset in `jobs.plans`: commands of jobs that were over below it are forgotten."""
        self._jobs: dict[str, int] = {}
        self._commands: list[tuple[Kept, Command]] = [] if base is None else list(_parsed(base.commands))

    def read(self, offset: int, time_ms: int, value: bytes) -> None:
        """Takes the record at an offset; a record that was read before changes nothing."""
        if offset < self.next:
            return
        self.next = offset + 1
        try:
            record = commands.decode(value)
        except msgspec.DecodeError:
            record = {}
        if isinstance(record, Command):
            self._commands.append((Kept(offset, time_ms, commands.encode(record).decode()), record))
        elif not _names_a_command(value):
            self._jobs[generation(offset, time_ms, value)] = offset

    def decided(self, known: Mapping[str, KnownJob], retired: Retired) -> int:
        """Returns the offset below which every job is decided."""
        for g in [g for g in self._jobs if g in known or retired.has(g)]:
            if self._jobs[g] < self.since:
                del self._jobs[g]
        return min((o for g, o in self._jobs.items() if g not in known and not retired.has(g)), default=self.next)

    def kept(self, upto: int, known: Mapping[str, KnownJob]) -> tuple[Kept, ...]:
        """Returns the commands below `upto` that still concern a running job; every job below is decided.

        Of commands that replace each other, the one that counts is kept, in its shortest form: the first cancel, the
        first drain, the last pause or resume before that, the last accept, the last command for each scheme, the last
        move or drill and the last rollback of a unit, and the last for each checkpoint policy. A command after a switch
        replaces none before
        it: it may concern the next generation, which is not decided yet.
        """
        slots: dict[tuple[str, ...], Kept] = {}
        switched = set[str]()
        for kept, command in self._commands:
            g = _concerned(kept.offset, command, known) if kept.offset < upto else None
            if g is None:
                continue
            place = (g, "behind") if command.job in switched else (g,)
            slot = (*place, *_slot(command))
            if command.command == "switch":
                slots.setdefault((g, "switch"), kept)
                switched.add(command.job)
            elif command.command in ("cancel", "drain"):
                slots.setdefault(slot, kept)
            elif command.command in ("pause", "resume"):
                if (*place, "drain") not in slots:
                    slots[slot] = kept
            elif _counts(command, known[g].units):
                slots[slot] = kept
        return tuple(sorted(slots.values(), key=attrgetter("offset")))

    def check(self, snapshot: Snapshot, known: Mapping[str, KnownJob], retired: Retired) -> bool | None:
        """True if the snapshot agrees with `jobs.submit`; None if it is not read that far yet, or the snapshot is too
        old.

        known, retired: as of the snapshot.
        """
        if snapshot.upto < self._decided_upto or not self.since <= snapshot.submit <= self.next:
            return None
        open_ = [g for g, o in self._jobs.items() if o < snapshot.submit and g not in known and not retired.has(g)]
        return not open_ and self.kept(snapshot.submit, known) == snapshot.commands

    def agreed(self, snapshot: Snapshot) -> None:
        """Forgets the records that the snapshot leaves out."""
        self.since = snapshot.submit
        self._decided_upto = snapshot.upto
        later = [one for one in self._commands if one[0].offset >= snapshot.submit]
        self._commands = [*_parsed(snapshot.commands), *later]
        self._jobs = {g: offset for g, offset in self._jobs.items() if offset >= snapshot.submit}


def plausible(snapshot: Snapshot, offset: int) -> bool:
    """True if a snapshot found at an offset may be true, as far as can be checked without the records below it."""
    offsets = [one.offset for one in snapshot.decisions]
    asked = [one.offset for one in snapshot.commands]
    return (
        snapshot.upto <= offset
        and offsets == sorted(set(offsets))
        and asked == sorted(set(asked))
        and all(one < snapshot.upto for one in offsets)
        and all(one < snapshot.submit for one in asked)
    )


def _known(values: Mapping[str, KnownJob | Retired]) -> dict[str, KnownJob]:
    return {key: value for key, value in values.items() if isinstance(value, KnownJob)}


def _records(known: Mapping[str, KnownJob]) -> list[Kept]:
    return sorted((kept for one in known.values() for kept in one.records), key=attrgetter("offset"))


def _offset(g: str) -> int:
    return submitted(g) or 0


def _begins(plan: Plan) -> int | None:
    if plan.stands_by:
        return None
    return plan.seed.switched if plan.seed is not None and plan.seed.switched >= 0 else _offset(plan.generation)


def _parsed(kept: Iterable[Kept]) -> Iterator[tuple[Kept, Command]]:
    for one in kept:
        try:
            command = commands.decode(one.record.encode())
        except msgspec.DecodeError:
            continue  # a forged snapshot, which the check rejects
        if isinstance(command, Command):
            yield one, command


def _concerned(offset: int, command: Command, known: Mapping[str, KnownJob]) -> str | None:
    """Returns the generation that a command concerns, if its job runs: as the controller finds it
    (core/command_effects.py)."""
    if command.command == "switch":
        one = known.get(command.generation)
        waits = one is not None and one.job == command.job and one.begins is None and not one.over
        return command.generation if waits else None
    live = [(one.begins, g) for g, one in known.items() if one.job == command.job and not one.rejected]
    named = [(begins, g) for begins, g in live if begins is not None and begins < offset]
    g = max(named, default=(0, None))[1]
    return None if g is None or known[g].over else g


def _counts(command: Command, units: Collection[str]) -> bool:
    """True if a command that changes a running job can be answered with more than a refusal."""
    match command.command:
        case "checkpoint" | "accept":
            return True
        case "rollback":
            return not command.unit or command.unit in units
    return command.unit in units and (command.command in ("move", "drill") or command.scheme in SCHEME_NAMES)


def _slot(command: Command) -> tuple[str, ...]:
    match command.command:
        case "cancel" | "drain" | "switch":
            return (command.command,)
        case "pause" | "resume":
            return ("control",)
        case "checkpoint":
            return ("checkpoint", command.policy if command.policy in POLICY_NAMES else "")
        case "accept":
            return ("accept",)
        case "scheme":
            return ("scheme", command.unit, command.scheme)
        case "move" | "drill":
            return ("move", command.unit)
    return (command.command, command.unit)


def _names_a_command(value: bytes) -> bool:
    """True for a record with `command`, also an unknown one: it is no job."""
    try:
        record = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(record, dict) and "command" in record
