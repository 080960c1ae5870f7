"""Words from other stream processors and data frames, with the operator or setting of a job file that means the same.
These words appear in hints only."""

from __future__ import annotations

from collections.abc import Container

_OF_OPERATORS = {
    ("map", "map_values", "mapvalues", "apply", "assign", "with_columns", "withcolumn", "rename", "drop", "project",
     "transform", "extract", "fill", "cast"): "select: [a, b * 2 AS c] keeps, computes and renames columns",
    ("where", "having", "query", "filter_by"): "filter: a condition",
    ("group_by", "groupby", "key_by", "keyby", "reduce", "count", "sum", "tumble", "window", "tumbling_window",
     "sliding_window", "session_window", "fold", "stats"):
        "aggregate: {n: count()}, with key: [a] and window: {size_s: 60}",
    ("explode", "flatmap", "flat_map", "flatten", "lateral"): "unnest: {column: a}",
    ("distinct", "deduplicate", "drop_duplicates", "unique"): "dedup: {within_s: 3600}, with key: [a]",
    ("sort", "order_by", "orderby", "limit", "head", "topk", "top_k", "rank", "latest"): "top: {k: 5, by: a}",
    ("merge", "concat", "combine"): "union: [one, other]",
    ("lookup", "enrich", "left_join", "inner_join", "stream_join", "interval_join"):
        'join: {left: one, right: other, "on": [a]}',
    ("temporal_join", "asof", "as_of", "as_of_join"): 'asof_join: {left: one, right: other, "on": [a]}',
    ("udf", "function", "process", "code", "call"): 'python: "my_package.module:Name"',
    ("throttle", "suppress", "rate_limit"): "pace",
}  # fmt: skip
_OF_SETTINGS = {
    "key": ("group_by", "groupby", "key_by", "keyby", "keys", "by", "partition_by", "partitionby", "key_column"),
    "size_s": ("size", "length", "duration", "width", "tumbling", "tumble", "size_ms", "interval", "every"),
    "slide_s": ("slide", "hop", "hopping", "advance", "advance_by", "period", "sliding"),
    "step_s": ("step", "cumulate", "cumulate_s", "cumulative"),
    "gap_s": ("gap", "session", "timeout", "inactivity", "inactivity_gap", "session_gap"),
    "zone": ("timezone", "time_zone", "tz"),
    "offset_s": ("offset",),
    "within_s": ("within", "window", "window_s", "tolerance", "interval", "history", "history_s"),
    "input": ("inputs", "from", "source", "stream", "upstream"),
    "on": ("using", "keys", "key", "condition"),
    "kind": ("how", "type", "join_type"),
    "k": ("limit", "n", "rows"),
    "by": ("order_by", "orderby", "sort_by", "column"),
    "order": ("ascending", "descending", "direction"),
    "event_time": ("timestamp", "time", "timestamp_field", "time_field", "time_column", "timestamp_column", "rowtime",
                   "watermark", "ts"),
    "allowed_lateness_s": ("lateness", "allowed_lateness", "grace", "grace_s", "watermark_delay"),
    "fields": ("schema", "columns"),
    "format": ("value_format", "encoding", "codec"),
    "start": ("offset_reset", "auto_offset_reset", "startup_mode", "startup"),
    "idle_after_s": ("idle_timeout", "idle", "idle_timeout_s"),
    "topic": ("to", "output", "kafka_topic", "destination"),
    "sink": ("to", "output", "topic", "into"),
    "sources": ("streams", "inputs", "tables"),
    "queries": ("outputs", "sinks", "results"),
    "operators": ("steps", "pipeline", "transforms", "nodes", "operations"),
}  # fmt: skip


def operator_for(word: str) -> str:
    """A hint with the operator for a word of another product; empty if the word is unknown."""
    return next((f"write {does}" for words, does in _OF_OPERATORS.items() if word.lower() in words), "")


def setting_for(word: str, settings: Container[str]) -> str:
    """The setting, among these, that corresponds to a word of another product; empty if there is none."""
    return next((name for name, words in _OF_SETTINGS.items() if name in settings and word.lower() in words), "")
