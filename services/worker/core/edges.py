"""Counts records along the edges of a unit, as of its last batch. The counts depend only on the batches, so markers
hold them.

Source: MECHANISMS P1.
"""

from __future__ import annotations

from collections.abc import Mapping

_IN, _BYTES, _OUT = "in/", "in-bytes/", "out/"
"""Prefixes of the names of counts in a marker; the edge follows."""


class EdgeCounts:
    """The counts of one unit since the start of the generation.

    Attributes:
        inputs: records and bytes read, by edge.
        outputs: records written, by edge.
        records: records read from all inputs.
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
        """The mean size of a record of the edge, in bytes; 0 without records."""
        records, size = self.inputs.get(edge, (0, 0))
        return size / records if records else 0.0

    def put(self, edge: str, records: int) -> None:
        self.outputs[edge] = self.outputs.get(edge, 0) + records

    def counts(self) -> dict[str, int]:
        """The counts as names and numbers of a marker."""
        return (
            {_IN + edge: records for edge, (records, _) in self.inputs.items()}
            | {_BYTES + edge: size for edge, (_, size) in self.inputs.items()}
            | {_OUT + edge: records for edge, records in self.outputs.items()}
        )

    def restore(self, counts: Mapping[str, int]) -> None:
        """Sets the counts to those of a marker."""
        self.inputs = {
            name.removeprefix(_IN): (records, counts.get(_BYTES + name.removeprefix(_IN), 0))
            for name, records in counts.items()
            if name.startswith(_IN)
        }
        self.outputs = {name.removeprefix(_OUT): records for name, records in counts.items() if name.startswith(_OUT)}


def without_edges(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts of a marker without those of edges."""
    return {name: count for name, count in counts.items() if not name.startswith((_IN, _BYTES, _OUT))}


def taken_in(counts: Mapping[str, int]) -> int:
    """The number of records read from all inputs, from the counts of a marker."""
    return sum(records for name, records in counts.items() if name.startswith(_IN))
