"""Records along the edges of a unit, as of its last batch. A function of the batches, so that markers carry them on.

Source: MECHANISMS P1.
"""

from __future__ import annotations

from collections.abc import Mapping

_IN, _BYTES, _OUT = "in/", "in-bytes/", "out/"
"""Begin the names of counts in a marker; the edge follows."""


class EdgeCounts:
    """Counts of one unit since the start of the generation.

    inputs: records and bytes taken in.
    outputs: records put out.
    records: taken in from all inputs.
    """

    def __init__(self) -> None:
        self.inputs: dict[str, tuple[int, int]] = {}
        self.outputs: dict[str, int] = {}

    @property
    def records(self) -> int:
        return sum(records for records, _ in list(self.inputs.values()))

    def take(self, edge: str, records: int, size: int) -> None:
        before = self.inputs.get(edge, (0, 0))
        self.inputs[edge] = (before[0] + records, before[1] + size)

    def mean_bytes(self, edge: str) -> float:
        """Mean size of a record taken in."""
        records, size = self.inputs.get(edge, (0, 0))
        return size / records if records else 0.0

    def put(self, edge: str, records: int) -> None:
        self.outputs[edge] = self.outputs.get(edge, 0) + records

    def counts(self) -> dict[str, int]:
        """For a marker."""
        return (
            {_IN + edge: records for edge, (records, _) in self.inputs.items()}
            | {_BYTES + edge: size for edge, (_, size) in self.inputs.items()}
            | {_OUT + edge: records for edge, records in self.outputs.items()}
        )

    def restore(self, counts: Mapping[str, int]) -> None:
        """Takes over the counts of a marker."""
        self.inputs = {
            name.removeprefix(_IN): (records, counts.get(_BYTES + name.removeprefix(_IN), 0))
            for name, records in counts.items()
            if name.startswith(_IN)
        }
        self.outputs = {name.removeprefix(_OUT): records for name, records in counts.items() if name.startswith(_OUT)}


def without_edges(counts: Mapping[str, int]) -> dict[str, int]:
    """The other counts of a marker."""
    return {name: count for name, count in counts.items() if not name.startswith((_IN, _BYTES, _OUT))}


def taken_in(counts: Mapping[str, int]) -> int:
    """Records from all inputs, as of a marker with these counts."""
    return sum(records for name, records in counts.items() if name.startswith(_IN))
