"""`./scripts/simulate`: replays one seed and tells its story, or runs a campaign of many."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.simulation.profiles import PROFILES
from tests.simulation.report.campaign import EVERY, Campaign, drawn_under, report
from tests.simulation.report.history import simulate
from tests.simulation.report.shrinking import shrink
from tests.simulation.report.speed import BATCH_MS, calls, measured
from tests.simulation.scenario import draw


def main() -> int:
    asked = _arguments()
    if asked.speed:
        speed = measured()
        print(
            f"{speed.whole:.1f} simulated seconds a second of a core, {speed.unchecked:.1f} without the checks: "
            f"{speed.units} units, a batch every {BATCH_MS} ms, no faults"
        )
        return 0
    if asked.calls:
        print("calls of functions a simulated second: " + ", ".join(f"{n:,.0f} {part}" for part, n in calls().items()))
        return 0
    if asked.seed is not None:
        return _one(asked)
    campaign = Campaign(Path(asked.out), asked.first, asked.seeds, asked.run_s, asked.profile)
    if asked.report:
        print("\n".join(report(list(campaign.lines.values()))))
        return 0
    return campaign.run(asked.workers)


def _one(asked: argparse.Namespace) -> int:
    profile = drawn_under(asked.profile, asked.seed)
    outcome = simulate(draw(asked.seed, asked.run_s and asked.run_s * 1000, profile))
    if outcome.wrong and asked.shrink:
        outcome = shrink(outcome, lambda left: print(f"still fails with {left}", file=sys.stderr))
    print("\n".join(outcome.story))
    for line in outcome.wrong:
        print(f"WRONG {line}")
    print(
        f"{outcome.simulated_ms / 1000:.1f} simulated seconds in {outcome.cpu_s:.1f} s of a core, "
        f"{len(outcome.scenario.faults)} faults, {outcome.records} records: {'WRONG' if outcome.wrong else 'all holds'}"
    )
    return 1 if outcome.wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed and print its story")
    parser.add_argument("--profile", default="", choices=[*PROFILES, EVERY], help="what it is drawn under")
    parser.add_argument("--speed", action="store_true", help="print how fast time passes, and nothing else")
    parser.add_argument("--calls", action="store_true", help="print how many calls that takes, and of which processes")
    parser.add_argument("--shrink", action="store_true", help="with --seed: look for the smallest history that fails")
    parser.add_argument("--seeds", type=int, default=100, help="campaign: how many seeds")
    parser.add_argument("--first", type=int, default=0, help="campaign: the first seed")
    parser.add_argument("--workers", type=int, default=1, help="campaign: processes at once")
    parser.add_argument("--run-s", type=int, help="simulated seconds with faults; default: drawn from the seed")
    parser.add_argument(
        "--report", action="store_true", help="campaign: print what is known so far, and simulate nothing"
    )
    parser.add_argument("--out", default=".holdfast/simulation", help="campaign: where its record lies, to be resumed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
