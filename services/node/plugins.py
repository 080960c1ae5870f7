"""A look at the modules of HOLDFAST_PLUGINS before a cluster starts: each is imported, in a process of its own.

What a module does when it is imported, it does there, and not in the command's process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.services.hosting.plugins import VARIABLE, modules_of
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.kernel.suggestions import did_you_mean

TIMEOUT_S = 120.0
"""A library with models may take a minute to be imported."""
LAST_WORDS = 2_000
_LOOK = """
import importlib, json, sys
from holdfast.services.hosting.plugins import from_folder

modules, found = json.loads(sys.argv[1]), {}
from_folder(modules)
for module in modules:
    try:
        importlib.import_module(module)
    except BaseException as error:
        if type(error).__module__.partition(".")[0] == "pyspark":
            continue  # it asks for a session of Spark, which drivers have
        found[module] = f"{type(error).__name__}: {error}"
print("\\n" + json.dumps(found))
"""


def check_plugins(plugins: str, timeout_s: float = TIMEOUT_S) -> None:
    """Raises CommandFailed for the first plugin that cannot be imported.

    plugins: names, comma separated.
    """
    modules = modules_of(plugins)
    if not modules:
        return
    troubles = _troubles(modules, timeout_s)
    for module in modules:
        if why := troubles.get(module):
            hint = _hint(module, why)
            raise CommandFailed(f"{VARIABLE} names {module}, which cannot be imported here: {why}", hint)


def _troubles(modules: Sequence[str], timeout_s: float) -> dict[str, str]:
    """The reason why a module cannot be imported, by module."""
    command = [sys.executable, "-P", "-c", _LOOK, json.dumps(modules)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return dict.fromkeys(modules, f"that takes longer than {timeout_s:g} s")
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        words = done.stderr.strip()[-LAST_WORDS:] or "it says nothing"
        return dict.fromkeys(modules, f"its process ended with status {done.returncode}: {words}")
    found: dict[str, str] = json.loads(lines[-1])
    return found


def _hint(module: str, why: str) -> str:
    if not why.startswith("ModuleNotFoundError"):
        return f"mend it, or take it out of {VARIABLE}"
    top = module.partition(".")[0]
    elsewhere = "give the command in the folder that holds it, or install it where the command runs"
    return did_you_mean(top, _here()) or elsewhere


def _here() -> list[str]:
    """Modules and packages of the folder in which the command was given."""
    found = [file.stem for file in Path.cwd().glob("*.py")]
    return [*found, *(file.parent.name for file in Path.cwd().glob("*/__init__.py"))]
