"""Setup installs with tools of the lock, and prepares nothing that only jobs on Spark use."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETUP = (ROOT / "scripts" / "setup").read_text(encoding="utf-8")


def test_the_installer_itself_is_pinned_with_its_sums() -> None:
    command = [sys.executable, "infra/docker/pinned.py", "requirements.lock", "pyproject.toml", "--group", "setup"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout
    pins = re.findall(r"^(\S+)==", said, re.MULTILINE)
    assert pins == ["pip", "setuptools"]
    assert said.count("--hash=sha256:") >= 2 * len(pins), "a wheel and the sources of each"


def test_packages_that_build_others_come_before_these() -> None:
    (first, others) = (line for line in SETUP.splitlines() if line.lstrip().startswith("install --no-compile"))
    assert "-r .venv/setup.txt" in first
    assert {"--no-build-isolation", "--require-hashes"} <= set(others.split())


def test_class_data_of_spark_are_left_to_an_analysis_that_is_idle() -> None:
    """They take half a minute of a processor, for which a first run of the demo would wait."""
    assert "class_data" not in SETUP


def test_setup_compiles_modules_whatever_the_environment_says() -> None:
    """Many images forbid it; pip would compile itself at each call."""
    assert SETUP.index("unset PYTHONDONTWRITEBYTECODE") < SETUP.index("install() {")
