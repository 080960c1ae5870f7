"""Answers to expressions that are wrong."""

from __future__ import annotations

import polars as pl

from holdfast.services.kernel.expressions.parsing import ExpressionError, compile_expression


def mistake(text: str, fields: pl.Schema) -> str:
    """The answer to an expression over these columns; empty: it is right."""
    try:
        compile_expression(text, fields)
    except ExpressionError as error:
        return str(error)
    return ""
