"""All that a Python operator of a job imports.

    import polars as pl
    from holdfast import Context, PythonOperator, State

    class Score(PythonOperator):
        output = {"carrier": "string", "score": "float"}

        def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
            return batch.select("carrier", score=pl.col("dep_delay") / 60)

A job file names it by `python: "my_module:Score"`, see docs/jobs.md. `help(PythonOperator)` says what a subclass gives,
and what its methods get and return.
"""

from services.kernel.operators.user_code import Context, PythonOperator
from services.kernel.operators.user_state import KeyedTable, State

__all__ = ["Context", "KeyedTable", "PythonOperator", "State"]
