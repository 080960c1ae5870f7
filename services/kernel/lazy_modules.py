"""Modules that libraries load at first use: they are loaded before the second thread starts, so that no two threads
load one at once.

polars reaches numpy, pyarrow, pandas and others by proxies. The first attribute read from a proxy imports the module
and copies the module's names into the proxy. numpy has a name `_globals`, under which the proxy keeps data of its own.
So a second thread that reads at the same time raises "'module' object does not support item assignment", and so does
each later read of a name that numpy lacks.

pyarrow imports pandas, if it is installed, when an array is converted to numpy or made from a list. That happens in the
first batch, and the loop of a worker hangs meanwhile: on a cold machine with a tenth of a core for over ten seconds, so
that the worker ended as stuck, and so did the next one. holdfast's code does not use pandas, so pyarrow does not get it
for calls from there; users' code imports pandas as usual.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

LOADED = ("numpy", "numpy.ma", "pyarrow")
"""Modules that our own code makes polars touch, on its way to columns and back. pandas is not among them."""
PROXIES = ("polars._dependencies", "polars.dependencies")
"""Modules in which polars has its proxies; the name depends on the release."""
PANDAS = "pandas"
OURS, ON_SPARK = "holdfast.services.", "holdfast.services.spark"
"""Modules for which pyarrow gets no pandas, but for those that run Spark, which has use for pandas."""
OWN_NAMES = frozenset({"_globals", "_module_name", "_module_available"})
"""Names that a proxy keeps of its own, beside the names of its module."""


def resolve(*, load: bool = True) -> None:
    """Loads the modules that polars would load at first use, and makes its other proxies safe for threads.

    The first thread of a process calls it before the process has another thread, and after the import of polars; a
    process without polars does not need it. A second call has no effect.

    Args:
        load: False leaves the modules to their first use, for a process of one thread that must start quickly.
    """
    if not any(isinstance(one, _NoPandasForOurs) for one in sys.meta_path):
        sys.meta_path.insert(0, _NoPandasForOurs())
    home = next((sys.modules[name] for name in PROXIES if name in sys.modules), None)
    if home is None:
        return
    for name in LOADED if load else ():
        import_module(name)
    kind: Any = getattr(home, "_LazyModule", None)
    if kind is None:
        return  # a release without proxies has nothing to resolve
    kind._import = _import
    for name in {name.partition(".")[0] for name in LOADED} if load else ():
        proxy: Any = vars(home).get(name)
        if isinstance(proxy, kind):
            proxy._import()


def _import(proxy: Any) -> ModuleType:
    """Replaces the proxy's own import, which is not safe for threads and overwrites names that the proxy needs.

    No lock: the interpreter has one for each module, and a thread that imports the module itself could take the two
    locks in the opposite order.
    """
    module = import_module(proxy.__name__)
    names = dict(vars(module))  # a copy, for which no other thread comes in between
    vars(proxy)["_globals"][vars(proxy)["_module_name"]] = module
    vars(proxy).update({name: value for name, value in names.items() if name not in OWN_NAMES})
    return module


class _NoPandasForOurs:
    """A finder before all others: imports by pyarrow on behalf of holdfast's code do not load pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """The spec of a module; None for modules other than pandas. Raises ModuleNotFoundError if holdfast's code
        imports pandas: pyarrow then continues without it, and a later search works as usual.
        """
        if name != PANDAS:
            return None
        if _is_ours(_importing()):
            raise ModuleNotFoundError(f"no {PANDAS} is needed here", name=PANDAS)
        found = PathFinder.find_spec(name, path)
        if found is not None and found.loader is not None:
            found.loader = _TellsArrow(found.loader)
        return found


class _TellsArrow(Loader):
    """A loader that loads pandas as usual, and makes pyarrow forget that pandas was missing."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        known: Any = getattr(sys.modules.get("pyarrow.lib"), "_pandas_api", None)
        getattr(known, "version", None)  # pyarrow searches for pandas before it returns the version


def _importing() -> str:
    """The module whose code imports, also through a C library; `importlib.util` if code only tests what is
    installed.
    """
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name == "importlib.util" or name.partition(".")[0] != "importlib":
            return name
        frame = frame.f_back
    return ""


def _is_ours(module: str) -> bool:
    """True for holdfast's modules without use for pandas. Only users' code reaches a proxy of polars, which loads
    pandas by a function of this module.
    """
    return module.startswith(OURS) and not module.startswith(ON_SPARK) and module != __name__
