"""Every citation in the code names something that the documents have.

`PROTOCOL 6` is a heading of docs/protocol.md; `MECHANISMS C10` a bold tag of docs/mechanisms.md, or `MECHANISMS section
4` a heading there; `JOBS "Field types"` a heading, a bold term or a command of docs/jobs.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CITED_IN = ("services", "schemas", "bench", "tests")

NUMBER = r"\d+(?:\.\d+)?"
TAG = r"[A-Z]\d+(?:/\d+)?"
BETWEEN = r"(?:, | and | to )"
PROTOCOL = re.compile(rf"\bPROTOCOL ({NUMBER}(?:{BETWEEN}{NUMBER})*)")
NUMBERS, TAGS = rf"{NUMBER}(?:{BETWEEN}{NUMBER})*", rf"{TAG}(?:{BETWEEN}{TAG})*"
MECHANISMS = re.compile(rf"\bMECHANISMS (?:sections? ({NUMBERS})(?:, ({TAG}))?|({TAGS}))")
QUOTED = re.compile(r"\b(JOBS|MECHANISMS) ((?:[\"`][^\"`]+[\"`](?:, )?)+)")
UNRESOLVED = re.compile(r"\b(?:PROTOCOL|MECHANISMS|STYLE)\.md\b|\bSource: STYLE\b|\bSTYLE \"")


def sources() -> Iterator[tuple[Path, str]]:
    """Each file with its text on one line: a citation may continue in the next line."""
    for folder in CITED_IN:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path != Path(__file__):
                text = re.sub(r"\s+", " ", re.sub(r"\n *# ?", "\n", path.read_text(encoding="utf-8")))
                yield path.relative_to(ROOT), without_brackets(text)


def without_brackets(text: str) -> str:
    return re.sub(r" \([^()]*\)", "", text)


def headings(page: str) -> set[str]:
    found = re.findall(r"^#+ (.+)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {heading.replace("`", "") for heading in found}


def numbers(page: str) -> set[str]:
    """Of headings such as `## 6. State` and `### 14.2 The stable output`."""
    return {found[1] for heading in headings(page) if (found := re.match(rf"({NUMBER})[. ]", heading))}


def terms(page: str) -> set[str]:
    """Headings, bold terms and code spans, each on one line and without backticks."""
    prose = re.sub(r"```.*?```", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"\s+", " ", prose)
    marked = re.findall(r"\*\*(.+?)\*\*", text) + re.findall(r"`([^`]+)`", text)
    return {without_brackets(term.replace("`", "")) for term in (*headings(page), *marked)}


def resolves(words: str, known: set[str]) -> bool:
    """Words may leave something out: `send ... feed a file`."""
    pattern = re.compile(".*".join(re.escape(part) for part in words.replace("`", "").split("...")))
    return any(pattern.search(term) for term in known)


@pytest.fixture(scope="module")
def files() -> list[tuple[Path, str]]:
    return list(sources())


def test_every_section_of_the_protocol_that_is_cited_exists(files: list[tuple[Path, str]]) -> None:
    known = numbers("protocol.md")
    cited = [(path, n) for path, text in files for found in PROTOCOL.findall(text) for n in re.findall(NUMBER, found)]
    assert len(cited) > 200, "the pattern does not find the citations any more"
    assert [(path, number) for path, number in cited if number not in known] == []


def test_every_mechanism_that_is_cited_exists(files: list[tuple[Path, str]]) -> None:
    tags, sections = terms("mechanisms.md"), numbers("mechanisms.md")
    missing = []
    for path, text in files:
        for section, behind, tagged in MECHANISMS.findall(text):
            missing += [(path, tag) for tag in re.findall(TAG, f"{behind} {tagged}") if tag not in tags]
            missing += [(path, number) for number in re.findall(NUMBER, section) if number not in sections]
    assert missing == []


def test_every_quotation_of_the_contract_with_users_exists(files: list[tuple[Path, str]]) -> None:
    known = {"JOBS": terms("jobs.md"), "MECHANISMS": terms("mechanisms.md")}
    missing = [
        (path, words)
        for path, text in files
        for page, quoted in QUOTED.findall(text)
        for words in re.findall(r"\"([^\"]+)\"|`([^`]+)`", quoted)
        if not resolves("".join(words), known[page])
    ]
    assert missing == []


def test_no_citation_names_a_page_that_the_repository_does_not_have(files: list[tuple[Path, str]]) -> None:
    assert [(path, found[0]) for path, text in files if (found := UNRESOLVED.search(text))] == []
