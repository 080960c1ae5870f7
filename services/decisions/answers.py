"""Fold of the cut log for users' code that awaits answers: the first complete answer of each task and batch counts.

No record decides which batches have answers: each batch that brings rows to such a task has an answer, and waits for
it. So no leader is needed, and the answer of a former leader is as good as another one. Source: PROTOCOL 3, decision
0225.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from holdfast.schemas import answers
from holdfast.schemas.answers import Answer
from holdfast.schemas.cuts import Answered
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan

MOST_PARTS = 64


def asking(plan: Plan) -> frozenset[str]:
    """Names of the operators whose code awaits answers."""
    return frozenset(one.name for one in plan.operators if one.python.ask is not None)


def asking_units(plan: Plan) -> frozenset[str]:
    """Names of the units with such an operator."""
    named = asking(plan)
    return frozenset(unit.name for unit in plan.units if not unit.host and named & set(unit.operators))


class Answers:
    """Answers of the tasks with these names."""

    def __init__(self, tasks: Collection[str]) -> None:
        self._tasks = frozenset(tasks)
        self._parts: dict[int, dict[tuple[str, Id], list[bytes]]] = {}
        self._known: dict[int, dict[str, Answer]] = {}

    def of(self, batch: int) -> Mapping[str, Answer]:
        """Returns the answers to a batch, by task."""
        return self._known.get(batch, {})

    def read(self, record: Answered) -> None:
        """Takes a record of the cut log. An answer that is incomplete or malformed changes nothing."""
        if record.task not in self._tasks or record.task in self.of(record.batch) or not 0 < record.parts <= MOST_PARTS:
            return
        made = self._parts.setdefault(record.batch, {}).setdefault((record.task, record.id), [])
        if record.part != len(made):
            return  # a part is repeated or missing: its author sends a complete answer under another id
        made.append(record.data)
        if len(made) < record.parts:
            return
        try:
            answer = answers.decode(b"".join(made))
        except msgspec.DecodeError:
            return
        self._known.setdefault(record.batch, {})[record.task] = answer

    def forget(self, batch: int) -> None:
        """Forgets batches up to this one, which are complete."""
        self._known = {known: found for known, found in self._known.items() if known > batch}
        self._parts = {known: parts for known, parts in self._parts.items() if known > batch}
