"""Runs the measures that were asked for; see ./scripts/bench --help."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from itertools import groupby

from bench.catalogue import MEASURES, Measure
from bench.options import Options, parse
from bench.results import Results, listing
from bench.rig.cluster import BenchCluster, folder_of_its_own
from bench.rig.followed import MeasureFailed, Refused
from bench.rig.machine import Outside, resting
from bench.rig.saying import say
from holdfast.services.cli.terminal import console
from holdfast.services.kernel.errors import HoldfastError

RESTING_S = 1.0
INTERRUPTED = 130


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if sys.argv[1:2] == ["failover"]:
        from bench.failover.command import main as failover

        return failover(sys.argv[2:])
    if sys.argv[1:2] == ["incident"]:
        from bench.research.incident import main as incident

        return incident(sys.argv[2:])
    if sys.argv[1:2] == ["promises"]:
        from bench.promises.command import main as promises

        return promises(sys.argv[2:])
    if sys.argv[1:2] == ["outages"]:
        from bench.outages.command import main as outages

        return outages(sys.argv[2:])
    if sys.argv[1:2] == ["against"]:
        from bench.against.command import main as against

        return against(sys.argv[2:])
    if sys.argv[1:2] == ["detectors"]:
        from bench.research.detectors.command import main as detectors

        return detectors(sys.argv[2:])
    if sys.argv[1:2] == ["compose"]:
        from bench.compose.command import main as compose

        return compose(sys.argv[2:])
    options = parse()
    if options.only_list:
        console().print(listing(MEASURES))
        return 0
    results = Results(before=resting(RESTING_S))
    try:
        status = _run(options, results)
    except KeyboardInterrupt:
        say("stopped; the cluster is down")
        status = INTERRUPTED
    if results.runs or results.errors:
        _report(results, options)
    return status


def _run(options: Options, results: Results) -> int:
    """Every measure `runs` times; a failure ends it all."""
    for number in range(options.runs):
        for measures in _shared(options.measures):
            try:
                _run_together(measures, f"run {number + 1} of {options.runs}", options, results)
            except (MeasureFailed, HoldfastError) as error:
                say(f"error: {error}")
                return 1
    return 1 if results.errors else 0


def _run_together(measures: list[Measure], run: str, options: Options, results: Results) -> None:
    """Runs measures in one cluster."""
    outside = Outside()
    with folder_of_its_own(say) as cluster:
        if workers := measures[0].workers:
            cluster.start(workers)
        for measure in measures:
            say(f"{run}: {measure.name} ...")
            _run_one(measure, cluster, options, results)
        roots = [pid for pid in [cluster.supervisor()] if pid is not None]
        during = {"measures": [measure.name for measure in measures], **outside.cores(roots)}
        results.outside.append(during | {"load_1min": round(os.getloadavg()[0], 2)})


def _run_one(measure: Measure, cluster: BenchCluster, options: Options, results: Results) -> None:
    """A job that is refused is not a measure's failure: what it needs may not be there yet."""
    try:
        results.add(measure.name, measure.run(cluster, measure.name, options.scale))
    except Refused as refused:
        results.errors[measure.name] = f"refused: {refused}"
    except (MeasureFailed, HoldfastError) as error:
        results.errors[measure.name] = str(error)
        raise


def _shared(measures: tuple[Measure, ...]) -> Iterator[list[Measure]]:
    """Groups of measures that may share a cluster."""
    for _, found in groupby(measures, key=lambda measure: measure.name if measure.alone else ""):
        yield list(found)


def _report(results: Results, options: Options) -> None:
    console(stderr=True).print(results.table())
    if options.file is None:
        print(results.line())
    else:
        with options.file.open("a") as file:
            file.write(results.line() + "\n")
        say(f"JSON: {options.file}")


if __name__ == "__main__":
    sys.exit(main())
