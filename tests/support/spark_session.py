"""The end of a Spark session of the tests' process."""

from __future__ import annotations

from pyspark import SparkContext


def end_jvm() -> None:
    """Spark leaves its JVM and the threads that talk to it; the tests that follow in this process need neither."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
