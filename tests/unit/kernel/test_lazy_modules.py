"""No two threads load one of a library's lazy modules at once: held in processes whose imports are slow."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from holdfast.services.kernel import lazy_modules

SERVICES = Path(__file__).parents[3] / "services"
CALL = "lazy_modules.resolve"
FIRST = {
    "worker/process/main.py": "main",
    "recovery/__main__.py": "main",
    "controller/__main__.py": "main",
    "spark/process.py": "main",
    "spark/analysis.py": "main",
    "spark/class_data.py": "main",
}
"""Functions whose first statement it is: what starts a process that has threads. A worker's and an isolated code
process's `__main__` only wait for the thread that imports."""
BEFORE = {
    "worker/isolated/__main__.py": ("main", "serve"),
    "cli/whereabouts.py": ("connected", "opened"),
    "cli/trial.py": ("_run", "LocalRun"),
    "cli/init.py": ("_tried", "LocalRun"),
    "../holdfast/testing.py": ("__init__", "InMemoryCluster"),
    "process/fork_server.py": ("load", "niced"),
}
"""Functions that resolve before they call what has threads, or runs users' code, which may."""
WITHOUT_POLARS = (
    "holdfast.services.node.daemon",
    "holdfast.services.node.single_service",
    "holdfast.services.node.kafka.keeper",
    "holdfast.services.cli.commands",
)

SLOW = """
import sys, threading, time

class Slow:
    '''Imports take long, as on a machine with a cold disk and no processor to spare.'''

    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "numpy.ma", "pyarrow"):
            time.sleep(0.2)
        return None

import polars as pl
from holdfast.services.kernel import lazy_modules

assert "numpy" not in sys.modules
{resolve}
sys.meta_path.insert(0, Slow())
sys.setswitchinterval(1e-6)
barrier, errors = threading.Barrier(4), []

def touch():
    barrier.wait()
    try:
        for _ in range(3):
            {touch}
    except Exception as error:
        errors.append(f"{{type(error).__name__}}: {{error}}")

threads = [threading.Thread(target=touch) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("; ".join(errors) or "fine")
"""
TOUCH = """
            from polars.series.series import np
            assert np.ndarray and not hasattr(np, "a name that numpy lacks")
            assert pl.Series("a", pl.Series([1, 2]).to_numpy()).sum() == 3
"""


def _ran(resolve: str) -> str:
    code = SLOW.format(resolve=resolve, touch=TOUCH.strip())
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=SERVICES.parent, check=False
    )
    return done.stdout.strip() or done.stderr


@pytest.mark.parametrize("resolve", [f"{CALL}()", f"{CALL}(load=False)"], ids=["loaded", "left to first use"])
def test_threads_that_touch_a_lazy_module_at_once_all_get_it(resolve: str) -> None:
    assert _ran(resolve) == "fine"


def test_without_that_the_second_thread_fails() -> None:
    """The libraries' fault is still there: once it is not, this module can go."""
    assert "TypeError: 'module' object does not support item assignment" in _ran("pass")


def test_all_modules_that_a_job_touches_are_loaded_and_no_pandas() -> None:
    code = (
        "import holdfast.services.kernel.operators.catalogue, sys\n"
        "from holdfast.services.kernel import lazy_modules\n"
        "lazy_modules.resolve()\n"
        "before = set(sys.modules)\n"
        "import polars as pl\n"
        "frame = pl.DataFrame({'a': [1, 2], 't': [None, 'x']})\n"
        "pl.Series('b', frame['a'].to_numpy() % 2)\n"
        "pl.from_arrow(frame.to_arrow()).group_by('a').agg(pl.len()).to_dicts()\n"
        "print(sorted({name for name in set(sys.modules) - before} & {'numpy', 'numpy.ma', 'pyarrow'}), "
        "'pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=SERVICES.parent, check=False
    )
    assert done.stdout.split() == ["[]", "False"], done.stderr


NO_PANDAS = """
import sys
from decimal import Decimal
import polars as pl
from holdfast.services.kernel import lazy_modules
from holdfast.services.kernel.codecs.keys import groups
from holdfast.services.kernel.codecs.typed_columns import decimals
from holdfast.services.planning.spark_installation import missing

lazy_modules.resolve(load={load})
groups(pl.DataFrame({{"k": list("aba")}}), ["k"])
decimals(pl.Decimal(10, 2))([Decimal("1.00"), None])
print("pandas" in sys.modules, missing() == "")
users = {{"__name__": "users", "pl": pl}}
exec("import pandas as pd; times = pl.from_pandas(pd.Series([pd.Timestamp(0), pd.NaT]))", users)
print(users["times"].null_count(), pl.DataFrame({{"a": [1]}}).to_pandas()["a"].sum())
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is part of the extra for Spark")
@pytest.mark.parametrize("load", [True, False], ids=["loaded", "left to first use"])
def test_our_own_code_loads_no_pandas_by_pyarrow_and_users_code_has_it(load: bool) -> None:
    """A loop that loads pandas in its first batch hangs for seconds."""
    code = NO_PANDAS.format(load=load)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=SERVICES.parent, check=False
    )
    assert done.stdout.split() == ["False", "True", "1", "1"], done.stderr


def test_a_second_call_does_nothing_new() -> None:
    lazy_modules.resolve()
    before, finders = dict(sys.modules), list(sys.meta_path)
    lazy_modules.resolve()
    assert dict(sys.modules) == before
    assert sys.meta_path == finders


# -- who calls it -----------------------------------------------------------------------------------------------------


def _function(file: str, name: str) -> ast.FunctionDef:
    tree = ast.parse((SERVICES / file).read_text(encoding="utf-8"))
    return next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)


def _calls(node: ast.AST) -> list[tuple[int, str]]:
    return sorted((one.lineno, ast.unparse(one.func)) for one in ast.walk(node) if isinstance(one, ast.Call))


@pytest.mark.parametrize(("file", "name"), FIRST.items())
def test_a_process_with_threads_resolves_before_all_else(file: str, name: str) -> None:
    body = _function(file, name).body
    first = body[1] if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) else body[0]
    assert ast.unparse(first) == f"{CALL}()"


@pytest.mark.parametrize(("file", "names"), BEFORE.items())
def test_a_command_resolves_before_it_has_threads(file: str, names: tuple[str, str]) -> None:
    name, threaded = names
    lines = {call: line for line, call in reversed(_calls(_function(file, name)))}
    assert lines[CALL] < lines[threaded]


def test_every_entry_point_is_one_of_these() -> None:
    """A new one says where it resolves, or that it has no polars."""
    mains = {
        str(file.relative_to(SERVICES))
        for file in SERVICES.rglob("*.py")
        if '__name__ == "__main__"' in (text := file.read_text(encoding="utf-8")) and "def main" in text
    }
    through = {"worker/__main__.py", "cli/__main__.py", "spark/__main__.py"}
    alone = {f"{name.removeprefix('holdfast.services.').replace('.', '/')}.py" for name in WITHOUT_POLARS}
    alone |= {"node/machine/tether.py", "node/machine/artifacts.py", "node/kafka/broker.py"}
    assert mains - set(FIRST) - set(BEFORE) - through - alone == set()


def test_processes_that_do_not_resolve_have_no_polars() -> None:
    code = f"import sys, {', '.join(WITHOUT_POLARS)}\nprint('polars' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=SERVICES.parent, check=False
    )
    assert done.stdout.strip() == "False", done.stderr
