"""A state of the code: a cluster of its own, measured whenever the other end of the pipe says so.

Run as a file, with the path of the checkout that it is to measure; so it imports nothing but what that checkout has,
which may be old. Its first line on stdout names the process above all others of the cluster. A line on stdin is a
request, `{"measure": "latency", "name": "latency-3"}`; a line on stdout its answer, `{"figures": {...}}` or
`{"error": "..."}`. The end of stdin ends the cluster.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.path[0] = sys.argv[1]
    scale_of = json.loads(sys.argv[2])
    home = "bench" if Path(sys.argv[1], "bench").is_dir() else "holdfast.services.cli.bench"
    rig = f"{home}.rig" if Path(sys.argv[1], "bench", "rig").is_dir() else home
    catalogue: Any = importlib.import_module(f"{home}.catalogue")
    cluster_module: Any = importlib.import_module(f"{rig}.cluster")
    scale = importlib.import_module(f"{rig}.scale").Scale(**scale_of)
    measures = {measure.name: measure for measure in catalogue.MEASURES}
    with tempfile.TemporaryDirectory(prefix="holdfast-against-") as folder:
        cluster = cluster_module.BenchCluster(Path(folder), lambda text: print(text, file=sys.stderr))
        cluster.start(1)
        try:
            answers.write(json.dumps({"supervisor": cluster.supervisor()}) + "\n")
            for line in sys.stdin:
                wanted = json.loads(line)
                try:
                    found = {"figures": measures[wanted["measure"]].run(cluster, wanted["name"], scale)}
                except Exception as error:  # the other side must get every error
                    found = {"error": f"{type(error).__name__}: {error}"}
                answers.write(json.dumps(found) + "\n")
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
