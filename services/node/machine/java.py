"""Java: finds the runtime that the embedded broker and Spark need, with a clear error if it is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

NEEDED = 17
HOW_TO_GET_IT = (
    "install a Java 17 runtime (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install "
    "openjdk@17) or set JAVA_HOME to one"
)


class JavaMissing(RuntimeError):
    """No Java of at least version 17 was found; the message names the places searched and the way to get it."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime.

    path: path of the program.
    version: the major version.
    build: output of `java -version`, which distinguishes builds.
    """

    path: str
    version: int
    build: str


def find_java() -> Java:
    """The `java` of JAVA_HOME, else of the PATH. Raises JavaMissing if there is none, or it is older than 17."""
    path = _candidate()
    if path is None:
        raise JavaMissing(f"no java in JAVA_HOME or on the PATH: {HOW_TO_GET_IT}")
    build = _build_of(path)
    found = re.search(r'version "(?:1\.)?(\d+)', build)
    version = int(found[1]) if found else 0
    if version < NEEDED:
        raise JavaMissing(f"{path} is Java {version or 'of an unknown version'}: {HOW_TO_GET_IT}")
    return Java(path, version, build)


def _candidate() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and os.access(f"{home}/bin/java", os.X_OK):
        return f"{home}/bin/java"
    return shutil.which("java")


def _build_of(path: str) -> str:
    """The program's version text; empty if it prints none."""
    try:
        return subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""
