"""Hand-over of a former job's state to the tasks of the next one: renamed, and split and merged by key.

Source: PROTOCOL 1 (keys go to tasks by xxh3 of a canonical encoding) and 6. The seed of the plan names the operators
whose state is kept. All of their tasks had processed the same batch, so their tables can be merged unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import xxhash
from msgspec import structs

from holdfast.schemas.checkpoints import Entry
from holdfast.schemas.plans import OperatorPlan, Plan
from holdfast.schemas.savepoints import Piece
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.operators.catalogue import KINDS
from holdfast.services.kernel.operators.kind import EVERY_TASK, OperatorKind
from holdfast.services.kernel.plans.layout import task_name


def split_by(operator: OperatorPlan) -> Mapping[str, int] | None:
    """The position, by table, at which the part of a key that decides its task begins; None if the operator's state
    cannot be split.
    """
    kind = KINDS[operator.kind]
    return kind.split_by(operator.settings) if isinstance(kind, OperatorKind) else None


def handed_over(plan: Plan, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yields the pieces of a savepoint as pieces of the plan's tasks. Raises the errors of reading the pieces."""
    assert plan.seed is not None
    former = {plan.seed.renamed.get(name, name): name for name in plan.seed.kept}
    operators = {one.name: one for one in plan.operators}
    seen: dict[tuple[str, str], set[bytes]] = {}
    for piece in pieces:
        was, _, index = piece.task.rpartition("-")
        if (operator := operators.get(former.get(was, ""))) is None:
            continue
        if operator.name in plan.seed.rescaled:
            yield from _split(operator, piece, seen.setdefault((was, piece.table), set()))
        else:
            yield structs.replace(piece, task=f"{operator.name}-{index}")


def _split(operator: OperatorPlan, piece: Piece, seen: set[bytes]) -> Iterator[Piece]:
    """Splits a piece among the tasks of an operator.

    seen: the keys of the table that every task already has, from other former tasks.
    """
    at = (split_by(operator) or {}).get(piece.table)
    if at is None:
        raise StateCorrupted(f"table {piece.table} of {operator.name} cannot be split")
    count = operator.parallelism
    shares: list[list[Entry]] = [[] for _ in range(count)]
    if at == EVERY_TASK:
        shares = [[entry for entry in piece.entries if entry[0] not in seen]] * count
        seen.update(key for key, _ in piece.entries)
    else:
        for entry in piece.entries:
            shares[xxhash.xxh3_64_intdigest(entry[0][at:]) % count].append(entry)
    for index, share in enumerate(shares):
        if share:
            yield structs.replace(piece, task=task_name(operator.name, index), entries=share)
