"""The Spark session of this process, opened when a job first needs it and shared by later jobs.

Source: JOBS `try`.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.spark.analysis import NO_JAVA, no_java
from holdfast.services.spark.operator import first_line
from holdfast.services.spark.session import open_session
from holdfast.services.spark.settings import SparkSettings

STARTS = "Spark starts in this process, which takes some seconds ..."
NOTICES = (b"Using incubator modules", b"Setting default log level", b"To adjust logging level")
"""Lines that Java and Spark write before the log can be silenced."""
TASKS = 2
"""Tasks that run in parallel; a job in `try` has few rows."""


class SparkDoesNotStart(HoldfastError):
    """No session could be opened; the message holds the reason."""


@functools.cache
def local_session() -> SparkSession:
    """The session. Prints on stderr that Spark starts.

    Raises:
        SparkDoesNotStart: no session can be opened.
    """
    if SparkSession.getActiveSession() is None:
        sys.stderr.write(f"{STARTS}\n")
        sys.stderr.flush()
    try:
        settings = SparkSettings(spark_master=f"local[{TASKS}]", spark_shuffle_partitions=TASKS)
        with _without(NOTICES):
            return open_session(settings, "holdfast-try", scratch() / "session", briefly=True, quiet=True)
    except (PySparkException, Py4JError) as error:
        raise SparkDoesNotStart(f"Spark does not start here: {NO_JAVA if no_java() else first_line(error)}") from error


@contextmanager
def whole_answers() -> Iterator[None]:
    """Closes this thread's connection to the JVM if the block is interrupted, as by Ctrl-C or a test's time-out.
    Otherwise the next call would read the answer of the interrupted one, and so on for the life of the process."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        drop_connection()
        raise


def drop_connection() -> None:
    """Closes this thread's connection to the JVM, if it has one; its next call opens another."""
    gateway = SparkContext._gateway
    connection = None if gateway is None else gateway._gateway_client.get_thread_connection()
    if connection is not None:
        connection.close(reset=True)


@contextmanager
def _without(notices: Sequence[bytes]) -> Iterator[None]:
    """Removes lines with these words from the stderr of processes that start in the block, for the life of the
    processes."""
    own, (read, write) = os.dup(2), os.pipe()
    os.dup2(write, 2)
    os.close(write)

    def forward() -> None:
        with os.fdopen(read, "rb") as lines:
            for line in lines:
                if not any(notice in line for notice in notices):
                    os.write(2, line)

    try:
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)
        threading.Thread(target=forward, name="stderr of Spark", daemon=True).start()


@functools.cache
def scratch() -> Path:
    """A folder of this process, deleted at its end."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
