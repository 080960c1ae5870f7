"""Selects the queries with `results: tentative` that can have tentative rows, and explains why others run as final.

Source: JOBS "queries", PROTOCOL 11, decision 0170.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.schemas.operator_settings import AggregateSettings
from holdfast.schemas.plans import UnitPlan
from holdfast.services.kernel.dataflow.sink_records import key_column
from holdfast.services.kernel.operators import catalogue
from holdfast.services.planning.check import Checked
from holdfast.services.planning.graph import sink_name


def having(checked: Checked, units: Sequence[UnitPlan]) -> frozenset[str]:
    """Names of the queries that publish tentative rows."""
    return frozenset(query for query in _asked(checked) if not _refused(checked, query, units))


def warnings(checked: Checked, units: Sequence[UnitPlan]) -> Iterator[str]:
    """Warnings about queries that ask for tentative rows and cannot have them."""
    for query in _asked(checked):
        if why := _refused(checked, query, units):
            yield f"queries.{query}.results: there are no tentative rows, it runs as final: {why}"


def updates(checked: Checked, query: str) -> bool:
    """The rows are running totals of rows that filters, selects and unions have left.

    Rows that were missing in a batch only add to it: a key that a batch without them has touched is touched by the
    whole batch. So each tentative row is replaced by a final one of its own batch, and none is to be taken back.
    """
    name = checked.spec.queries[query].input
    while checked.kind(name) == "select":
        (slot,) = checked.graph.slots[name]
        name = slot.producer
    settings = checked.settings(name)
    if not isinstance(settings, AggregateSettings) or not _running(settings):
        return False
    above = checked.graph.upstream(name) - {name}
    return all(_plain(checked, one) for one in above)


def _running(settings: AggregateSettings) -> bool:
    return settings.window is None and settings.emit == "updates" and settings.forget_after_s is None


def _plain(checked: Checked, name: str) -> bool:
    """A source of records that stand for themselves, or an operator that takes its rows one by one."""
    if name in checked.spec.sources:
        return not checked.streams[name].row_key and not checked.streams[name].changes
    return catalogue.KINDS[checked.kind(name)].row_by_row


def _asked(checked: Checked) -> list[str]:
    return [name for name, query in checked.spec.queries.items() if query.results == "tentative"]


def _refused(checked: Checked, query: str, units: Sequence[UnitPlan]) -> str:
    """The reason why the query cannot have tentative rows; empty if it can."""
    spec, rows = checked.spec, checked.streams[sink_name(query)]
    above, sink = checked.graph.upstream(sink_name(query)), spec.queries[query].sink
    hosted = next((name for name in above if checked.kind(name) == "spark"), "")
    column = "" if sink is None else key_column(sink.key, rows.row_key)
    if sink is not None and sink.parquet is not None:
        return "a row in a file is there for good, and cannot be corrected"
    if sink is not None and sink.sql is not None:
        return "a table has rows that count alone"
    if sink is not None and sink.format == "arrow":
        return "a record of format arrow has no key by which it could be corrected"
    if sink is not None and sink.delete_when is not None:
        return "a record without a value takes a tentative row back, and `delete_when` makes such records, too"
    if not (rows.row_key and (rows.windowed or rows.once or updates(checked, query))):
        return (
            "only rows of windows that come once (`emit: final`) and running totals of rows that are taken one by one "
            "can be corrected, with all key columns"
        )
    if column and rows.row_key != (column,):
        return f"the key of its records, '{column}', does not identify a row"
    if hosted:
        return f"operator {hosted} runs on Spark, which does not work on a fork"
    if spec.retain_bytes is not None:
        return "retain_bytes holds the sources back while a unit is out"
    if spec.fault_tolerance.precision == "gap":
        return "precision gap skips what is missing"
    if not any(set(unit.operators) & above and not set(unit.operators) & set(spec.sources) for unit in units):
        return "all that it needs is one unit with its source, so nothing continues when it is out; see placement.units"
    return ""
