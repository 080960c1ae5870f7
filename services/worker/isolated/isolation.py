"""Rules for processes of users' code, in a module without further imports, so that a reader of settings loads none of
their libraries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Isolation:
    """Rules for every process of a worker's isolated code.

    Attributes:
        allow: modules that code may come from; None for any.
        patience_s: time limit of one batch.
        loading_s: time limit for loading the code.
        memory_mb: resident memory near which a process is ended, MiB; 0 for no limit.
    """

    allow: tuple[str, ...] | None = None
    patience_s: float = 4.0
    loading_s: float = 50.0
    memory_mb: int = 0
