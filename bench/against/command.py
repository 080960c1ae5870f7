"""`./scripts/bench against REVISION MEASURE ...`: this checkout beside another revision of it.

Single runs on a shared machine differ by 10 to 20 %, and drift over minutes. So both states of the code have a cluster
at the same time, and are measured in turns of seconds, in the order A B B A: what counts is the ratio in each pair. The
one that is not measured is stopped: what a cluster takes at rest would slow down the other one, and not itself.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.catalogue import MEASURES
from bench.rig.machine import trees
from bench.rig.pairs import ratio
from bench.rig.saying import say
from holdfast.services.cli.terminal import console

ROOT = Path(__file__).resolve().parents[2]
SIDE = Path(__file__).with_name("side.py")
INTERRUPTED = 130


class Side:
    """A state of the code, and its cluster, which is stopped except while it is measured."""

    def __init__(self, tree: Path, scale: dict[str, float]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SIDE), str(tree), json.dumps(scale)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=tree,  # processes of the cluster search this folder first for imports
            text=True,
            start_new_session=True,  # this process handles Ctrl-C
            env={**os.environ, "PYTHONPATH": str(tree), "HOLDFAST_CLUSTER_SECRET": "off"},
        )

        self._supervisor: int | None = None

    def began(self) -> None:
        """Waits until its cluster is there. Raises SystemExit with the cause if it does not start."""
        began = self._answer()
        if "error" in began:
            raise SystemExit(f"bench against: a cluster does not start: {began['error']}")
        self._supervisor = began["supervisor"]
        self._signal(signal.SIGSTOP)

    def measure(self, measure: str, name: str) -> dict[str, float]:
        """Figures of a measure. Raises SystemExit with the cause if it fails."""
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        self._process.stdin.write(json.dumps({"measure": measure, "name": name}) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        self._signal(signal.SIGSTOP)
        if "error" in answer:
            raise SystemExit(f"bench against: {name}: {answer['error']}")
        return dict(answer["figures"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return dict(json.loads(line)) if line else {"error": "its process ended"}

    def _signal(self, number: signal.Signals) -> None:
        if self._supervisor is not None:
            signal_tree(self._supervisor, number)


def signal_tree(root: int, number: signal.Signals) -> None:
    """Sends a signal to a process and all its descendants, to supervisors before the processes that they restart."""
    for pid in trees([root]):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def main(words: Sequence[str]) -> int:
    options = _parse(words)
    scale = {"records": options.records, "seconds": options.seconds, "rest_seconds": options.seconds}
    figures: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    try:
        with ExitStack() as stack:
            theirs = stack.enter_context(_tree(options.revision))
            sides = [Side(tree, scale) for tree in (ROOT, theirs)]
            for side in sides:
                stack.callback(side.close)
            for side in sides:
                side.began()
            for number in range(options.pairs + 1):
                for measure in options.measures:
                    say(f"pair {number} of {options.pairs}: {measure} ..." + (" (warms up)" if not number else ""))
                    order = (0, 1) if number % 2 else (1, 0)
                    found = {at: sides[at].measure(measure, f"{measure}-{number}") for at in order}
                    for key in found[0].keys() & found[1].keys() if number else ():
                        figures[measure, key].append((found[0][key], found[1][key]))
    except KeyboardInterrupt:
        say("stopped; both clusters are down")
        status = INTERRUPTED
    else:
        status = 0
    if figures:
        _report(figures, options.revision)
    return status


def _parse(words: Sequence[str]) -> argparse.Namespace:
    known = [measure.name for measure in MEASURES if measure.workers == 1]
    parser = argparse.ArgumentParser(
        "bench against",
        description="Measures this checkout beside another revision, by turns in two clusters. A ratio is ours over "
        "theirs; its interval holds the true median with 90 %. Needs a quiet machine for some minutes.",
        epilog="example: ./scripts/bench against HEAD~20 count-1k latency --pairs 11",
    )
    parser.add_argument("revision", metavar="REVISION", help="of git; its packages are those installed here")
    parser.add_argument("measures", metavar="MEASURE", nargs="+", choices=known, help=", ".join(known))
    parser.add_argument(
        "--pairs", type=int, default=11, help="after one that warms up (default: 11; interval from 5 on)"
    )
    parser.add_argument("--records", type=int, default=300_000, help="preloaded for throughput (default: 300,000)")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each steady state (default: 6)")
    return parser.parse_args(words)


@contextmanager
def _tree(revision: str) -> Iterator[Path]:
    """A checkout of the revision, deleted at the end of the context."""
    with tempfile.TemporaryDirectory(prefix="holdfast-tree-") as folder:
        tree = Path(folder, "tree")
        git = ["git", "-C", str(ROOT), "worktree"]
        made = subprocess.run([*git, "add", "--detach", str(tree), revision], capture_output=True, text=True)
        if made.returncode:
            raise SystemExit(f"bench against: {revision}: {made.stderr.strip()}")
        try:
            _link_packages(tree)
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], capture_output=True)


def _link_packages(tree: Path) -> None:
    """Gives an older revision, whose packages lay at the top alone, the names that the installed command imports."""
    for name in ("services", "schemas"):
        link = tree / "holdfast" / name
        if (tree / name).is_dir() and not link.exists():
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(Path("..", name))


def _report(figures: dict[tuple[str, str], list[tuple[float, float]]], revision: str) -> None:
    table = Table("measure", "figure", "ours", revision, "ratio", "90 % interval", "pairs")
    rows: dict[str, Any] = {}
    for (measure, figure), pairs in sorted(figures.items()):
        if not any(theirs for _, theirs in pairs):
            continue
        found = ratio([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
        rows[f"{measure}.{figure}"] = [round(found.median, 3), round(found.low, 3), round(found.high, 3), found.pairs]
        shown = f"{found.low:.3f} to {found.high:.3f}"
        medians = (f"{found.ours:,.4g}", f"{found.theirs:,.4g}", f"{found.median:.3f}")
        table.add_row(measure, figure, *medians, shown, str(found.pairs))
    console(stderr=True).print(table)
    print(json.dumps({"revision": revision, "ratios": rows}))
