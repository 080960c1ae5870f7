"""The unit tests that need no cluster pass on each supported Python that this machine has, from the lock alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
QUICK = ["-q", "-m", "not kafka and not spark and not slow and not long", "-p", "no:cacheprovider", "tests/unit"]
INSTALL_S, TESTS_S = 1_800, 3_600


def interpreter(version: str) -> Path | None:
    """On the PATH, or of pyenv or uv."""
    homes = [Path("~/.pyenv/versions").expanduser(), Path("~/.local/share/uv/python").expanduser()]
    places = [one for home in homes for one in sorted(home.glob(f"*{version}.*/bin"), reverse=True)]
    for candidate in (shutil.which(f"python{version}"), *(place / f"python{version}" for place in places)):
        if candidate is not None and _says(Path(candidate)) == version:
            return Path(candidate)
    return None


def _says(python: Path) -> str:
    probe = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False).stdout.strip()


def ran(*command: object, seconds: float) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=kept, timeout=seconds, check=False)
    assert done.returncode == 0, f"{' '.join(words)}\n{(done.stdout + done.stderr)[-6_000:]}"
    return done.stdout


def test_the_project_names_these_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    last = int(PYTHONS[-1].partition(".")[2])
    assert project["requires-python"] == f">={PYTHONS[0]},<3.{last + 1}"
    assert f'pythons="{" ".join(reversed(PYTHONS))}"' in (ROOT / "scripts" / "setup").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("version", PYTHONS)
def test_the_quick_tests_pass_on_this_python(version: str, tmp_path: Path) -> None:
    """Its packages are those of the lock, checked by their sums, in an environment of its own."""
    found = interpreter(version)
    if found is None:
        pytest.skip(f"this machine has no Python {version}")
    python = Path(sys.executable)
    if f"{sys.version_info.major}.{sys.version_info.minor}" != version:
        python = tmp_path / "venv" / "bin" / "python"
        ran(found, "-m", "venv", tmp_path / "venv", seconds=INSTALL_S)
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        ran(*pip, "--require-hashes", "-r", "requirements.lock", seconds=INSTALL_S)
        ran(*pip, "--no-deps", "--no-build-isolation", "--editable", ROOT, seconds=INSTALL_S)
    said = ran(python, "-m", "pytest", *QUICK, seconds=TESTS_S)
    assert " passed" in said
