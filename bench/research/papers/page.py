"""The page: a table of verdicts, then each figure with its paper's result. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.research.papers.figure import Check, Figure, Verdict, verdict
from bench.research.papers.kept import Measured

HEAD = """# Figures of the papers, measured here

`./scripts/figures` measures and draws this page; no line of it is written by hand. The tags are those of
[mechanisms.md](../mechanisms.md), section 6. Numbers come from `data/`, a file a figure.

**The verdict** follows from the rules below each figure. *Reproduced*: every rule holds. *Reproduced in shape*: the
rules about the shape of the curves hold, and a rule about their distance does not. *Not reproduced*: a rule about the
shape fails; it is the reason. Rules about the shape are marked.
"""


def page(figures: Sequence[Figure], measured: Mapping[str, Measured]) -> str:
    """The page in Markdown, with figures in SVG files beside it."""
    sections = [_section(figure, measured[figure.tag]) for figure in figures]
    return "\n".join([HEAD, *_table(figures, measured), "", *sections])


def judged(figure: Figure, found: Measured) -> tuple[Verdict, Sequence[Check]]:
    """Verdict and checks of a figure, which is open while points are missing."""
    if not figure.complete(found.points):
        return Verdict.OPEN, ()
    checks = figure.checks(found.points)
    return verdict(checks), checks


def _table(figures: Sequence[Figure], measured: Mapping[str, Measured]) -> list[str]:
    rows = ["| figure | what | measured on | verdict |", "|---|---|---|---|"]
    for figure in figures:
        what = f"[{figure.tag}](#{_anchor(figure)})"
        ground = figure.ground.value.partition(",")[0].partition(":")[0]
        rows.append(f"| {what} | {figure.title} | {ground} | {judged(figure, measured[figure.tag])[0].value} |")
    return rows


def _section(figure: Figure, found: Measured) -> str:
    ruling, checks = judged(figure, found)
    lines = [f"## {figure.tag} {figure.title}", "", f"**{ruling.value.capitalize()}.** {_because(checks)}".rstrip(), ""]
    if ruling is not Verdict.OPEN:
        lines += [f"![{figure.tag}]({figure.tag}.svg)", ""]
    lines += [f"**The paper** ({figure.paper}): {figure.expected}", "", f"**Here**: {figure.setup}", ""]
    lines += [f"Measured on {figure.ground.value}."] + ([figure.differs] if figure.differs else [])
    if found.machine:
        lines.append(f"Machine: {found.machine}; {found.versions}.")
    if checks:
        lines += ["", "| rule | found | holds |", "|---|---|---|"]
        lines += [f"| {_rule(check)} | {check.found} | {'yes' if check.holds else '**no**'} |" for check in checks]
    return "\n".join([*lines, ""])


def _rule(check: Check) -> str:
    return f"{check.what} (shape)" if check.shape else check.what


def _because(checks: Sequence[Check]) -> str:
    failed = [f"{check.what}: found {check.found}" for check in checks if not check.holds]
    return f"Not so: {'; '.join(failed)}." if failed else ""


def _anchor(figure: Figure) -> str:
    """Anchor that GitHub makes of the heading."""
    text = f"{figure.tag} {figure.title}".lower()
    return "".join(letter for letter in text if letter.isalnum() or letter in " -_").replace(" ", "-")
