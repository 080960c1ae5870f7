"""Imports: how long the commands take that a person types first, and which modules take the longest to load."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.scale import Scale

JOB = """
name: counted
sources: {given: {topic: given, fields: {k: string, v: int}}}
operators: {sums: {aggregate: {n: "count()", total: "sum(v)"}, key: [k], input: given}}
queries: {all: {input: sums, sink: {topic: all}}}
"""
RUNS = 5
SHOWN = 12


def imports(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Median seconds of `holdfast --help` and of `holdfast try` with 100 records, and CPU seconds of them."""
    job, rows = cluster.folder / "job.yaml", cluster.folder / "rows.ndjson"
    job.write_text(JOB)
    rows.write_text("".join(f'{{"k": "{index % 7}", "v": {index}}}\n' for index in range(100)))
    found: Figures = {}
    for command, words in {"help": ["--help"], "try": ["try", str(job), "--input", f"given={rows}"]}.items():
        runs = [_run([sys.executable, "-m", "holdfast.services.cli", *words], cluster.folder) for _ in range(RUNS)]
        found |= {f"{command}_s": round(median(one[0] for one in runs), 2)}
        found |= {f"{command}_cpu_s": round(median(one[1] for one in runs), 2)}
        for took_ms, module in _slowest(words, cluster.folder):
            cluster.say(f"  {command}: {took_ms:.0f} ms {module}")
    return found


def _run(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Seconds, and CPU seconds of the process."""
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=folder, env=_environment(), check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _slowest(words: Sequence[str], folder: Path) -> Iterator[tuple[float, str]]:
    """Modules that took the longest by themselves, in milliseconds, as `python -X importtime` prints them."""
    command = [sys.executable, "-X", "importtime", "-m", "holdfast.services.cli", *words]
    done = subprocess.run(command, cwd=folder, env=_environment(), check=True, capture_output=True, text=True)
    lines = (
        line.removeprefix("import time:").split("|") for line in done.stderr.splitlines() if "import time:" in line
    )
    took = ((int(parts[0]) / 1000, parts[2].strip()) for parts in lines if parts[0].strip().isdigit())
    yield from sorted(took, reverse=True)[:SHOWN]


def _environment() -> dict[str, str]:
    """An environment in which modules are compiled, as in an installation."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(Path(__file__).parents[2])}
