"""The versions on which the bytes of a unit's output depend, and no others, as heartbeats carry them.

The computing code counts by its syntax trees: a release that changes only its words gives equal bytes. A unit with
users' code also depends on the text of that code and on the libraries that it imports.

Source: PROTOCOL 0.2 and 4.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from holdfast.services.kernel.code_digest import code_digest, digest

COMPUTES = ("codecs", "dataflow", "expressions", "operators", "plans", "state")
"""Packages of the kernel whose code makes rows, frames and state from the records of a cut."""

DISTRIBUTIONS = ("msgspec", "numpy", "polars", "pyarrow")
"""Libraries that make values and bytes. Libraries that only transport bytes, such as Kafka's client, do not count."""

CODE = "code "
"""The prefix of the name of the version of one module of users' code, such as `code scoring`."""

PRETENDED = "HOLDFAST_TEST_VERSIONS"
"""A setting for tests: `polars=9.9,...`, or the path of a file with such a text, `@path`; replaces the true versions.
"""

MAX_TEXT = 400
SOURCE = "source"
"""The version of code that is not installed as a package."""
OURS = ("holdfast",)
_said: dict[str, str] = {}
"""The reported versions of users' code, by name."""
_IMPORT = re.compile(rb"^[ \t]*(?:import[ \t]+([\w., \t]+)|from[ \t]+([\w.]+)[ \t]+import\b)", re.MULTILINE)


@cache
def versions(modules: tuple[str, ...] = ()) -> dict[str, str]:
    """The versions of this process, by name.

    modules: the modules that may hold users' operators.
    """
    _said.update({CODE + module: _of_code(module) for module in modules})
    return installed() | {CODE + module: _said[CODE + module] for module in modules} | _pretended()


@cache
def installed() -> dict[str, str]:
    """The versions of this process but for users' code. Forks of a process report what it has loaded."""
    return {
        "kernel": code_digest(Path(__file__).parent, COMPUTES),
        **{name: _version(name) for name in DISTRIBUTIONS},
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "machine": platform.machine(),
    }


def changed(modules: Collection[str]) -> list[str]:
    """The modules on the allow-list whose files have changed since this process reported their versions.

    modules: the modules of users' code that the process will load.
    """
    named = [name for name in _said if _concerns(name, modules)]
    return [top for name in named if _of_code(top := name.removeprefix(CODE)) != _said[name]]


def text_of(versions: Mapping[str, str], modules: Collection[str] = ()) -> str:
    """The versions on which a unit depends, as text for people and for comparison; empty if none is known.

    modules: the modules of its users' code, such as `scoring.models`; `code scoring` covers all modules below it.
    """
    named = (f"{name} {versions[name]}" for name in sorted(versions) if _concerns(name, modules))
    return ", ".join(named)[:MAX_TEXT]


def _concerns(name: str, modules: Collection[str]) -> bool:
    if not name.startswith(CODE):
        return True
    top = name.removeprefix(CODE)
    return any(module == top or module.startswith(f"{top}.") for module in modules)


def differences(planned: str, here: str) -> str:
    """Differences of the second of two texts, for people: `polars 2 (not 1)`."""
    before, now = _parts(planned), _parts(here)
    names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    return ", ".join(f"{name} {now.get(name, 'missing')} (not {before.get(name, 'there')})" for name in names)


def _parts(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.rpartition(" ") for part in text.split(", ") if part)}


# -- what is there ----------------------------------------------------------------------------------------------------


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return SOURCE


def _of_code(module: str) -> str:
    """A digest of its files and of the versions of the libraries that they import; `missing` if nothing is found."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return "missing"
    if spec.submodule_search_locations:
        files = [(Path(root), file) for root in spec.submodule_search_locations for file in Path(root).rglob("*.py")]
    else:
        files = [(Path(spec.origin).parent, Path(spec.origin))] if spec.origin else []
    sources = sorted((file.relative_to(root).as_posix(), file.read_bytes()) for root, file in files)
    imported = {name for _, content in sources for name in _imported(content)}
    libraries = _libraries(imported - {module.partition(".")[0], *OURS, *DISTRIBUTIONS, *sys.stdlib_module_names})
    return digest([*sources, ("libraries", libraries.encode())])


def _imported(content: bytes) -> Iterator[str]:
    """The top-level names after `import` and `from`, approximately: a name inside a text does no harm."""
    for found in _IMPORT.finditer(content):
        named = (found[1] or found[2]).split(b",")
        yield from (one.split()[0].partition(b".")[0].decode() for one in named if one.strip(b" \t."))


def _libraries(names: Collection[str]) -> str:
    """The versions of installed libraries. Most are installed under their import name; a search for the others takes
    0.3 s.
    """
    named = {name: _version(name) for name in sorted(names)}
    unknown = [name for name, found in named.items() if found == SOURCE and _is_there(name)]
    by_name = packages_distributions() if unknown else {}
    named |= {one: _version(one) for name in unknown for one in by_name.get(name, ())}
    return ", ".join(f"{name} {found}" for name, found in sorted(named.items()) if found != SOURCE)


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _pretended() -> dict[str, str]:
    said = os.environ.get(PRETENDED, "")
    if said.startswith("@"):
        file = Path(said[1:])
        said = file.read_text() if file.exists() else ""
    pairs = (one.partition("=") for one in said.split(",") if one.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}
