"""Many seeds, one line of JSON each, so that a campaign can be interrupted and continues; and its report."""

from __future__ import annotations

import multiprocessing
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from holdfast.services.worker.core.lifecycle import State
from tests.simulation.faults.catalogue import KINDS
from tests.simulation.profiles import PROFILES
from tests.simulation.report.coverage import BRIEF, beyond, rows
from tests.simulation.report.history import simulate
from tests.simulation.scenario import draw

INTERRUPTED = 130
EVERY = "every"
"""Name of a campaign of all profiles, one after the other."""


def drawn_under(profile: str, seed: int) -> str:
    """The profile of a seed in a campaign under `profile`."""
    return list(PROFILES)[seed % len(PROFILES)] if profile == EVERY else profile


class Line(msgspec.Struct, frozen=True):
    """Result of one seed."""

    seed: int
    simulated_ms: int
    cpu_s: float
    records: int
    faults: dict[str, int]
    taken: dict[str, int]
    met: dict[str, int]
    wrong: list[str]
    profile: str = ""


def one_line(seed: int, run_s: int | None = None, profile: str = "") -> Line:
    """Simulates a seed."""
    profile = drawn_under(profile, seed)
    try:
        outcome = simulate(draw(seed, run_s and run_s * 1000, profile))
    except Exception as error:
        trace = "".join(traceback.format_exception(error))
        return Line(seed, 0, 0.0, 0, {}, {}, {}, [f"simulator: {type(error).__name__}: {error}\n{trace}"], profile)
    faults = Counter(fault.kind for fault in outcome.scenario.faults)
    return Line(
        seed, outcome.simulated_ms, round(outcome.cpu_s, 2), outcome.records, faults, outcome.taken, outcome.met,
        outcome.wrong, profile,
    )  # fmt: skip


class Campaign:
    """Seeds first to first + count - 1, with what is known of them in a file that is only appended to."""

    def __init__(self, folder: Path, first: int, count: int, run_s: int | None, profile: str = "") -> None:
        self._profile = profile
        told = [profile] * bool(profile) + ([] if run_s is None else [f"{run_s}s"])
        self._file = folder / f"{'-'.join(['campaign', *told])}.jsonl"
        self._seeds = range(first, first + count)
        self._run_s = run_s
        self.lines: dict[int, Line] = {}
        if self._file.exists():
            known = (msgspec.json.decode(line, type=Line) for line in self._file.read_bytes().splitlines())
            self.lines = {line.seed: line for line in known if line.seed in self._seeds}

    def run(self, workers: int) -> int:
        """Simulates what is left and prints the report; 1 if anything is wrong."""
        console = Console(stderr=True)
        left = [seed for seed in self._seeds if seed not in self.lines]
        columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        status = 0
        try:
            with Progress(*columns, TextColumn("{task.description}"), console=console) as bar:
                task = bar.add_task("", total=len(self._seeds), completed=len(self.lines))
                for line in self._simulated(left, workers):
                    self._add(line)
                    wrong = sum(bool(one.wrong) for one in self.lines.values())
                    bar.update(task, advance=1, description=f"{wrong} wrong" if wrong else "")
        except KeyboardInterrupt:
            console.print("stopped; started again it continues from here")
            status = INTERRUPTED
        print("\n".join(report(list(self.lines.values()))))
        return status or int(any(line.wrong for line in self.lines.values()))

    def _simulated(self, seeds: Sequence[int], workers: int) -> Iterator[Line]:
        simulated = partial(one_line, run_s=self._run_s, profile=self._profile)
        if workers == 1:
            yield from map(simulated, seeds)
            return
        with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=200) as pool:
            yield from pool.imap_unordered(simulated, seeds)

    def _add(self, line: Line) -> None:
        self.lines[line.seed] = line
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")


def report(lines: Sequence[Line]) -> list[str]:
    """Seeds, simulated time, faults by kind, what of the tables was taken, and what was wrong."""
    hours = sum(line.simulated_ms for line in lines) / 3_600_000
    cpu_s = sum(line.cpu_s for line in lines)
    taken, met, faults = Counter[str](), Counter[str](), Counter[str]()
    for line in lines:
        taken.update(line.taken)
        met.update(line.met)
        faults.update(line.faults)
    wrong = [line for line in lines if line.wrong]
    speed = hours * 3600 / cpu_s if cpu_s else 0
    told = [
        f"{len(lines)} seeds, {hours:.2f} simulated hours, {speed:.1f} simulated seconds a second of a core, "
        f"{sum(line.records for line in lines):,} records, {len(wrong)} seeds wrong",
        f"faults: {', '.join(f'{kind} {count}' for kind, count in faults.most_common())}",
        *_pairs(met),
    ]
    for table, every in rows().items():
        missing = [row for row in every if f"{table}: {row}" not in taken]
        told.append(f"{table}: {len(every) - len(missing)} of {len(every)} rows taken")
        told += [f"  not taken: {row}" for row in missing if not beyond(table, row)]
        cannot = Counter(why for row in missing if (why := beyond(table, row)))
        told += [f"  cannot be taken: {count} rows, as {why}" for why, count in cannot.items()]
    told += [
        f"WRONG seed {line.seed}{line.profile and f' under {line.profile}'}: {line.wrong[0].splitlines()[0]}"
        for line in sorted(wrong, key=lambda w: w.seed)
    ]
    return told


def _pairs(met: Mapping[str, int]) -> list[str]:
    """Faults that met copies in each state, and pairs that never did."""
    states = [state.value for state in State if state not in BRIEF]
    every = {kind: [state for state in states if f"{kind}: copy {state}" not in met] for kind in KINDS}
    told = [f"fault x state pairs: {len(met)} of {len(KINDS) * len(states)}"]
    return told + [f"  not met: {kind} x {', '.join(states)}" for kind, states in every.items() if states]
