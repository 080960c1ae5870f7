"""Every link of a document leads to a file, and to a heading where it names one; the index of decisions is complete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\[\]\n]*\]\(([^)\s]+)\)")


def links(page: Path) -> Iterator[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return (target for target in LINK.findall(text) if not re.match(r"[a-z]+:", target))


def anchors(page: Path) -> set[str]:
    """As GitHub makes them from headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in links(page):
        name, _, anchor = target.partition("#")
        to = (page.parent / name).resolve() if name else page
        if not to.exists() or (anchor and anchor not in anchors(to)):
            broken.append(target)
    assert broken == []


def test_the_index_lists_every_decision_once_by_its_title() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    pages = [page for page in sorted(folder.glob("*.md")) if page.name != "README.md"]
    titles = {page.name: page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for page in pages}
    expected = [f"- [{title[:4]}]({name}) {title[5:]}" for name, title in titles.items()]
    assert sorted(line for line in index.splitlines() if line.startswith("- [")) == expected


def test_every_decision_says_its_date_its_topic_and_whether_it_holds() -> None:
    folder = ROOT / "docs" / "decisions"
    topic, expected = "", {}
    for line in (folder / "README.md").read_text(encoding="utf-8").splitlines():
        topic = line.removeprefix("## ") if line.startswith("## ") else topic
        if line.startswith("- ["):
            expected[line[3:7]] = topic
    said = {}
    for page in folder.glob("0*.md"):
        paragraph = page.read_text(encoding="utf-8").split("\n\n")[1].replace("\n", " ")
        status = r"in force|(?:revised|superseded) by \[\d{4}\]\([\w-]+\.md\)"
        found = re.fullmatch(rf"\d{{4}}-\d\d-\d\d\. Topic: (.+?)\. Status: (?:{status})\.", paragraph)
        said[page.name[:4]] = paragraph if found is None else found[1]
    assert said == expected
