"""A Spark driver process: `python -m holdfast.services.spark`, configured by HOLDFAST_* variables."""

from __future__ import annotations

import os
import sys

from holdfast.services.diagnostics.service_log import close_service_log
from holdfast.services.planning import spark_installation


def main() -> int:
    if absent := spark_installation.missing():
        print(f"error: {absent} ({spark_installation.COMMAND})", file=sys.stderr)
        return 1
    from holdfast.services.spark.process import main as drive

    return drive()


if __name__ == "__main__":
    status = main()
    close_service_log()
    # Queries, their JVM and client threads end with the process; waiting for them is not needed.
    os._exit(status)
