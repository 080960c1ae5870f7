"""Prints the part of requirements.lock that an image needs, with the sums of its files.

    python pinned.py requirements.lock pyproject.toml [--without NAME,...] [--extra EXTRA,...] [--group GROUP]

What is needed: the project's dependencies and those of extras, or those of a group, without the named ones, and
whatever the lock says was taken in for them ("via"). `pip install --require-hashes --no-deps` installs it.
"""

import argparse
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

_PINNED, _NAME = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?=="), re.compile(r"[A-Za-z0-9._-]+")
_VIA = re.compile(r"^ +# +(?:via)? *(\S*)")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("lock", type=Path)
    parser.add_argument("project", type=Path)
    parser.add_argument("--without", default="")
    parser.add_argument("--extra", default="")
    parser.add_argument("--group", default="")
    given = parser.parse_args()
    project = tomllib.loads(given.project.read_text())
    extras = project["project"]["optional-dependencies"]
    more = [one for extra in given.extra.split(",") if extra for one in extras[extra]]
    listed = project["dependency-groups"][given.group] if given.group else project["project"]["dependencies"] + more
    wanted = {_plain(found[0]) for one in listed if (found := _NAME.match(one))} - set(given.without.split(","))
    entries = dict(_entries(given.lock.read_text().splitlines()))
    if missing := wanted - entries.keys():
        raise SystemExit(f"{given.lock} does not pin {', '.join(sorted(missing))}: run scripts/lock")
    while taken := {name for name, (_, via) in entries.items() if via & wanted} - wanted:
        wanted |= taken
    for name in sorted(wanted):
        print("\n".join(entries[name][0]))


def _entries(lines: list[str]) -> Iterator[tuple[str, tuple[list[str], set[str]]]]:
    """By name: the lines that pin it, and for which packages it was taken in."""
    starts = [index for index, line in enumerate(lines) if _PINNED.match(line)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        entry = lines[start:end]
        found = _PINNED.match(entry[0])
        assert found is not None
        via = {_plain(match[1]) for line in entry if (match := _VIA.match(line)) and match[1]}
        yield _plain(found[1]), ([line for line in entry if not line.lstrip().startswith("#")], via)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
