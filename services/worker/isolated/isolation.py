"""Rules for processes of users' code, in a module of their own: a reader of settings needs no library of theirs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Isolation:
    """Rules for every process of a worker's isolated code.

    allow: modules that code may come from; None: any.
    patience_s: for one batch.
    loading_s: until the code is loaded.
    memory_mb: resident memory near which a process is ended; 0: no limit.
    """

    allow: tuple[str, ...] | None = None
    patience_s: float = 4.0
    loading_s: float = 50.0
    memory_mb: int = 0
