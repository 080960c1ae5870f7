"""What groups rows is there before the first batch, and brings nothing that nobody uses."""

from __future__ import annotations

import subprocess
import sys

import pytest

SAYS = "import sys; print(*(name in sys.modules for name in ('pyarrow.acero', 'pyarrow.dataset', 'pandas')))"


def said(program: str) -> str:
    return subprocess.run([sys.executable, "-c", f"{program}\n{SAYS}"], capture_output=True, text=True).stdout.strip()


@pytest.mark.slow
def test_a_worker_starts_with_it_and_without_pandas() -> None:
    assert said("import holdfast.services.worker.process.main") == "True False False"


@pytest.mark.slow
def test_datasets_can_be_loaded_before_and_after_acero() -> None:
    grouping = "import holdfast.services.kernel.operators.grouping"
    assert said(f"{grouping}; import pyarrow.dataset as d; d.dataset").startswith("True True")
    assert said(f"import pyarrow.dataset as d; {grouping}; d.dataset").startswith("True True")
