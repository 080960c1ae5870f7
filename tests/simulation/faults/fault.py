"""A fault, and the processes and topics that faults can hit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault. target: names of processes. ms: how long, or until the restart. detail, count: as the kind has it."""

    at_ms: int
    kind: str
    target: tuple[str, ...] = ()
    ms: int = 0
    detail: str = ""
    count: int = 1

    def __str__(self) -> str:
        parts = [self.kind, *self.target, self.detail, f"x{self.count}" if self.count != 1 else ""]
        return " ".join(part for part in parts if part) + (f" for {self.ms} ms" if self.ms else "")


@dataclass(frozen=True, slots=True)
class Roles:
    """Whom a fault can hit. topics: of the user, which may grow; sinks: those that the job writes."""

    workers: tuple[str, ...]
    replicas: tuple[str, ...]
    controllers: tuple[str, ...]
    units: tuple[str, ...]
    topics: tuple[str, ...]
    sinks: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return self.workers + self.replicas + self.controllers
