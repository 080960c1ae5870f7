"""Artifacts: sets of jars from Maven Central, resolved by Ivy, checked against recorded sums.

A set is a folder of `infra` with two files: `artifacts.txt` (coordinates, the first one names the version) and
`artifacts.sha256` (the sum of every jar that follows from them).
`python -m holdfast.services.node.machine.artifacts kafka` brings the set into the cache; `--record` writes the sums of
what was resolved instead of checking them.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.node.machine.folders import CACHE_SETTING, cache_dir, using
from holdfast.services.node.machine.java import JavaMissing, find_java

INFRA = Path(__file__).parents[3] / "infra"
IVY = INFRA / "ivy" / "ivy-2.5.3.jar"
RESOLVE_TIMEOUT_S = 900


class ArtifactsMissing(RuntimeError):
    """The jars of a set are absent, differ from their sums, or could not be resolved; the message names the fix."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """Coordinate of an artifact.

    alone: not empty to resolve it without its dependencies.
    """

    organisation: str
    module: str
    revision: str
    alone: str = ""


@dataclass(frozen=True, slots=True)
class ArtifactSet:
    name: str
    coordinates: tuple[Coordinate, ...]
    sums: Mapping[str, str]  # jar's file name -> sha256

    @property
    def directory(self) -> Path:
        return cache_dir() / f"{self.name}-{self.coordinates[0].revision}"

    @property
    def class_path(self) -> str:
        """The jars in a fixed order, joined for `java -cp`: a class-data archive is only good for the same order."""
        return ":".join(str(self.directory / jar) for jar in sorted(self.sums))


def read_set(name: str) -> ArtifactSet:
    folder = INFRA / name
    lines = (folder / "artifacts.txt").read_text().splitlines()
    coordinates = tuple(Coordinate(*line.split()) for line in lines if line and not line.startswith("#"))
    sums_file = folder / "artifacts.sha256"
    sums = (line.split() for line in sums_file.read_text().splitlines()) if sums_file.exists() else ()
    return ArtifactSet(name, coordinates, {jar: digest for digest, jar in sums})


def faults(wanted: ArtifactSet, directory: Path) -> list[str]:
    """Faults of the jars in `directory`: one line for each that is absent, altered or unknown."""
    if not directory.is_dir():
        return [f"{directory} does not exist"]
    present = {path.name: path for path in directory.glob("*.jar")}
    absent = [f"{jar} is absent" for jar in wanted.sums if jar not in present]
    unknown = [f"{jar} has no recorded sum" for jar in present if jar not in wanted.sums]
    altered = [
        f"{jar} is not the file whose sum was recorded"
        for jar, digest in wanted.sums.items()
        if jar in present and _sha256(present[jar]) != digest
    ]
    return absent + unknown + altered


def require(name: str) -> ArtifactSet:
    """The set, if its jars are in the cache; their sums were checked on arrival. Raises ArtifactsMissing, which names
    the command that fetches them.
    """
    wanted = read_set(name)
    if not is_there(wanted):
        how = f"run `{sys.executable} -m holdfast.services.node.machine.artifacts {name}`, which fetches them"
        raise ArtifactsMissing(f"the jars of {name} are not in {wanted.directory}: {how}")
    return wanted


def is_there(wanted: ArtifactSet) -> bool:
    return all((wanted.directory / jar).exists() for jar in wanted.sums)


def ensure(name: str) -> ArtifactSet:
    """The set, resolved into the cache if it is not there or not intact.

    Raises ArtifactsMissing when resolving fails or yields other files than recorded, JavaMissing without Java, and
    CommandFailed where the cache cannot be written.
    """
    wanted = read_set(name)
    if not faults(wanted, wanted.directory):
        return wanted
    with using(cache_dir(), CACHE_SETTING), _staging() as staging:
        resolved = _resolve(wanted, Path(staging))
        wrong = faults(wanted, resolved)
        if wrong:
            raise ArtifactsMissing(f"what was resolved for {name} is not what was recorded: " + "; ".join(wrong))
        _move_into_place(resolved, wanted.directory)
    return wanted


def record(name: str) -> ArtifactSet:
    """Resolve the set afresh and write its sums to `infra/<name>/artifacts.sha256`, for a new version."""
    with _staging() as staging:
        jars = sorted(_resolve(read_set(name), Path(staging)).glob("*.jar"))
        lines = [f"{_sha256(jar)}  {jar.name}\n" for jar in jars]
    (INFRA / name / "artifacts.sha256").write_text("".join(lines))
    return read_set(name)


def _staging() -> tempfile.TemporaryDirectory[str]:
    """A temporary directory beside the final place, so that the move is one rename."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".resolving-")


def _resolve(wanted: ArtifactSet, staging: Path) -> Path:
    """Have Ivy download the set into `staging`; nothing of ours is kept in the user's own Ivy cache."""
    module = staging / "ivy.xml"
    module.write_text(_ivy_module(wanted))
    jars = staging / "jars"
    command = [find_java().path, "-jar", str(IVY), "-warn", "-cache", str(staging / "ivy"), "-ivy", str(module)]
    command += ["-retrieve", f"{jars}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RESOLVE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise ArtifactsMissing(f"resolving {wanted.name} took more than {RESOLVE_TIMEOUT_S} s: try again") from None
    if done.returncode != 0:
        raise ArtifactsMissing(
            f"downloading the jars of {wanted.name} failed; is Maven Central reachable from here (Java takes a proxy "
            f"from JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=... -Dhttps.proxyPort=...)? Ivy says:\n"
            + "\n".join(_meaningful_lines(done.stdout + done.stderr))
        )
    return jars


def _ivy_module(wanted: ArtifactSet) -> str:
    dependencies = "".join(
        f'<dependency org="{c.organisation}" name="{c.module}" rev="{c.revision}" conf="default"'
        f' transitive="{"false" if c.alone else "true"}"/>'
        for c in wanted.coordinates
    )
    info = f'<info organisation="holdfast" module="{wanted.name}"/>'
    return f'<ivy-module version="2.0">{info}<dependencies>{dependencies}</dependencies></ivy-module>'


def _meaningful_lines(output: str) -> list[str]:
    """Ivy's output without progress dots, the list of every place it tried, and Java's messages
    about its own options.
    """
    noise = ("..", "====", "--", "/", "http", "Picked up ")
    lines = [line.strip() for line in output.splitlines()]
    return [line for line in lines if line.strip(":. ") and not line.startswith(noise)][-12:]


def _move_into_place(resolved: Path, final: Path) -> None:
    """Moves the set by one rename. A damaged set in the final place is moved away first; a set that another process
    placed first stays.
    """
    if final.exists():
        final.rename(resolved.with_name("replaced"))
    try:
        resolved.rename(final)
    except OSError:
        if not final.is_dir():
            raise


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.services.node.machine.artifacts", description="Bring jars into the cache."
    )
    parser.add_argument("name", choices=sorted(path.parent.name for path in INFRA.glob("*/artifacts.txt")))
    parser.add_argument("--record", action="store_true", help="write the sums of what is resolved now")
    arguments = parser.parse_args()
    try:
        done = record(arguments.name) if arguments.record else ensure(arguments.name)
    except (ArtifactsMissing, CommandFailed, JavaMissing) as error:
        hint = f" ({error.hint})" if isinstance(error, CommandFailed) else ""
        print(f"error: {error}{hint}", file=sys.stderr)
        return 1
    print(f"{len(done.sums)} jars in {done.directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
