"""Modules that libraries load at first use: loaded before the first thread, so that no two threads load one at once.

polars reaches numpy, pyarrow, pandas and others by proxies. The first attribute that is asked of a proxy imports the
module and copies the module's names into the proxy. numpy has a name, `_globals`, under which the proxy keeps something
of its own, so a second thread that asks meanwhile raises "'module' object does not support item assignment", and so
does each later question for a name that numpy does not have.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

LOADED = ("numpy", "numpy.ma", "pyarrow")
"""Modules that our own code makes polars touch, on its way to columns and back. pandas is not among them."""
PROXIES = ("polars._dependencies", "polars.dependencies")
"""Modules in which polars has its proxies; the name depends on the release."""
OWN_NAMES = frozenset({"_globals", "_module_name", "_module_available"})
"""Names that a proxy keeps of its own, beside the names of its module."""


def resolve(*, load: bool = True) -> None:
    """Loads what polars would load at first use, and makes every other proxy safe for threads.

    To be called by the first thread of a process before the process has another one, and after polars was imported: a
    process that has no polars needs nothing of this. A second call does nothing new.

    Args:
        load: False leaves the modules to their first use: for a process of one thread, which must start quickly.
    """
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
    """In place of the proxy's own: threads may call it at once, and the proxy keeps what it needs of itself.

    No lock: the interpreter has one for each module, and a lock of ours around that one could be taken in the other
    order by a thread that imports the module itself.
    """
    module = import_module(proxy.__name__)
    names = dict(vars(module))  # a copy, for which no other thread comes in between
    vars(proxy)["_globals"][vars(proxy)["_module_name"]] = module
    vars(proxy).update({name: value for name, value in names.items() if name not in OWN_NAMES})
    return module
