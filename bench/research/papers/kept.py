"""Measurements of each figure: a JSON file for each, to which each new point is added.

An interrupted run resumes with the missing points; a complete figure is only drawn again.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench.research.papers.figure import Figure, Values


class Measured(msgspec.Struct, omit_defaults=True):
    """Measurements of one figure.

    machine, versions: machine and software versions of its last point.
    """

    tag: str
    points: dict[str, Values] = {}
    machine: str = ""
    versions: str = ""


class Kept:
    """The files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, figure: Figure) -> Measured:
        """Points that the figure does not have any more are left out.

        Raises:
            ValueError: the file is none of ours; its path.
        """
        path = self._path(figure)
        if not path.exists():
            return Measured(figure.tag)
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Measured)
        except msgspec.DecodeError as error:
            raise ValueError(f"{path} holds no measured figure ({error}): remove it, or run with --restart") from error
        found.points = {key: values for key, values in found.points.items() if key in figure.keys}
        return found

    def forget(self, figure: Figure) -> None:
        self._path(figure).unlink(missing_ok=True)

    def add(self, figure: Figure, key: str, values: Values, machine: str, versions: str) -> None:
        """Whole or not at all: the file is replaced."""
        found = self.read(figure)
        points = {**found.points, key: values}
        ordered = {one: points[one] for one in figure.keys if one in points}
        path = self._path(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        made = msgspec.json.format(msgspec.json.encode(Measured(figure.tag, ordered, machine, versions)), indent=1)
        draft = path.with_suffix(".draft")
        draft.write_bytes(made + b"\n")
        draft.replace(path)

    def _path(self, figure: Figure) -> Path:
        return self._folder / f"{figure.tag}.json"
