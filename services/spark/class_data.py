"""Keeps class data of Spark's JVM in an archive shared by every JVM of this machine, which halves their start time.

`python -m holdfast.services.spark.class_data` makes it, as does an idle analysis process (services/spark/analysis.py).
Java checks that an archive fits, and ignores one that does not.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql import functions as F

from holdfast.services.kernel import lazy_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

END_S = 120.0
"""Longest time for a JVM to write an archive."""
OLD_S = 30 * 24 * 3600.0
"""Age at which archives of other installations are deleted; each has 180 MB."""


def archive() -> Path | None:
    """The path of the archive for this Java and this Spark; None without a Java. The file may be missing."""
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    if found is None or not os.access(found, os.X_OK):
        return None
    java, jars = Path(found).resolve(), Path(pyspark.__file__).parent / "jars"
    made_of = f"{java} {java.stat().st_mtime_ns} {jars} {pyspark.__version__} {jars.stat().st_mtime_ns}"
    folder = Path(os.environ.get("HOLDFAST_CACHE") or "~/.cache/holdfast").expanduser().absolute()
    return folder / f"spark-classes-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}.jsa"


def options(records: bool) -> list[str]:
    """Options of a JVM that uses the archive. With `records`, the JVM makes a missing archive at its end."""
    wanted = archive()
    if wanted is None:
        return []
    if wanted.exists():
        return [f"-XX:SharedArchiveFile={wanted}", "-Xlog:cds=off"]
    if not records or not _writable(wanted.parent):
        return []
    return [f"-XX:ArchiveClassesAtExit={_beside(wanted)}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def record(spark: SparkSession, scratch: Path) -> None:
    """Ends the JVM of a session that was opened to record, and so makes a missing archive.

    A query runs first, so that the archive holds the classes that drivers load. A failure leaves everything unchanged.
    """
    wanted = archive()
    if wanted is None or wanted.exists() or not _writable(wanted.parent):
        return
    gateway: Any = spark.sparkContext._gateway
    try:
        _play(spark, scratch)
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(END_S)
        _beside(wanted).rename(wanted)
    except (OSError, subprocess.TimeoutExpired):
        _beside(wanted).unlink(missing_ok=True)
        return
    for other in wanted.parent.glob("spark-classes-*.jsa"):
        with suppress(OSError):
            if other != wanted and other.stat().st_mtime < time.time() - OLD_S:
                other.unlink()


def _play(spark: SparkSession, scratch: Path) -> None:
    """Runs a windowed aggregate with its state in RocksDB and its rows through Arrow, like an operator's query."""

    def on_batch(rows: DataFrame, _batch: int) -> None:
        rows.mapInArrow(_same, rows.schema).collect()

    given = str(scratch / "given")
    spark.sql("SELECT id, current_timestamp() AS at FROM range(10)").write.parquet(given)
    stream = spark.readStream.schema("id long, at timestamp").parquet(given)
    counted = stream.withWatermark("at", "1 second").groupBy(F.window("at", "1 second"), "id").count()
    writer = counted.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(scratch / "checkpoint"))
    running = writer.trigger(availableNow=True).start()
    with suppress(Exception):  # more classes or fewer
        running.awaitTermination(END_S)  # type: ignore[arg-type]
    running.stop()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _beside(wanted: Path) -> Path:
    return wanted.with_name(f".{wanted.name}-{os.getpid()}")


def main() -> int:
    """Makes a missing archive."""
    lazy_modules.resolve()
    from holdfast.services.spark.session import open_session
    from holdfast.services.spark.settings import SparkSettings

    wanted = archive()
    if wanted is None:
        print("error: there is no Java in JAVA_HOME or on the PATH", file=sys.stderr)
        return 1
    if not wanted.exists():
        with tempfile.TemporaryDirectory(prefix="holdfast-classes-") as scratch:
            settings = SparkSettings(spark_master="local[2]")
            folder = Path(scratch)
            record(open_session(settings, "holdfast-classes", folder, briefly=True, quiet=True, records=True), folder)
    if not wanted.exists():
        print(f"error: Java wrote no archive of class data to {wanted}", file=sys.stderr)
        return 1
    print(f"class data of Spark in {wanted}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
