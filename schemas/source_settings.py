"""The settings of a source in a plan: `params` of its operator, decoded once."""

from __future__ import annotations

import msgspec

MAX_AHEAD_S = 3600.0
"""The limit of event times ahead of their records in plans that name none; null in a plan: no limit."""


class FieldSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A field that has another name in the record, or that is metadata of the record."""

    origin: str | None = msgspec.field(name="from", default=None)
    metadata: str | None = None


class CsvSettings(msgspec.Struct, frozen=True):
    delimiter: str = ","
    quote: str = '"'
    null_words: tuple[str, ...] = ()


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A source, with the words of the job file. The defaults are those of plans of former versions."""

    topic: str | None = None
    format: str = "json"
    csv: CsvSettings | None = None
    subject: str | None = None
    subject_strategy: str = "topic"
    record: str | None = None
    key_format: str | None = None
    on_schema_change: str = "dead-letter"
    envelope: str | None = None
    fields: dict[str, str | FieldSettings] = {}
    event_time: str | None = None
    unit: str | None = None
    allowed_lateness_s: float = 0.0
    max_ahead_s: float | None = MAX_AHEAD_S
    on_ahead: str = "dead-letter"
    null_records: str = "dead-letter"
    idle_after_s: float | None = None
    close_after_idle_s: float | None = None
    on_data_loss: str = "fail"
    table: tuple[str, ...] | None = None

    @property
    def origins(self) -> dict[str, str]:
        """The names in the record of renamed fields, by column."""
        return {name: one.origin for name, one in self._declared.items() if one.origin is not None}

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata that columns hold in place of fields of the value, by column."""
        return {name: one.metadata for name, one in self._declared.items() if one.metadata is not None}

    @property
    def _declared(self) -> dict[str, FieldSettings]:
        return {name: one for name, one in self.fields.items() if isinstance(one, FieldSettings)}


NO_SOURCE = SourceSettings()
"""The settings for an operator that is no source."""
