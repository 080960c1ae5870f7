"""For each file in the folder FAULTS one batch of a worker meets what no code of ours names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl

from holdfast import PythonOperator
from holdfast.services.kernel.dataflow.unit import Unit

FAULTS = Path(os.environ["FAULTS"])
_process = Unit.process


def process(self: Unit, *given: Any, **named: Any) -> Any:
    for fault in FAULTS.iterdir():
        try:
            fault.unlink()
        except FileNotFoundError:
            continue
        raise TypeError("'module' object does not support item assignment")
    return _process(self, *given, **named)


setattr(Unit, "process", process)  # noqa: B010 (a method is not assigned to)


class Same(PythonOperator):
    output = {"id": "int"}  # noqa: RUF012 - as users write it

    def on_batch(self, batch: pl.DataFrame, state: Any, ctx: Any) -> pl.DataFrame:
        return batch.select("id", "_time")
