"""ARCHITECTURE.md stays short, and answers its five questions by files that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
MOST_LINES = 120
QUESTIONS = (
    "Why was this unit switched?",
    "When is a checkpoint due?",
    "What makes a frame a duplicate?",
    "Where is a scheme defined?",
    "What happens when a broker restarts?",
)


def answers() -> dict[str, str]:
    """By question."""
    section = TEXT.partition("\n## Five questions\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"\*\*([^*]+\?)\*\*(.*?)(?=\n\n\*\*|\Z)", section, re.DOTALL))


def test_the_architecture_is_short() -> None:
    assert len(TEXT.splitlines()) <= MOST_LINES


def test_each_question_is_answered_by_files() -> None:
    """That a link leads somewhere is held by test_links.py."""
    assert tuple(answers()) == QUESTIONS
    assert not [question for question, answer in answers().items() if ".py)" not in answer]


def test_paths_that_are_no_links_are_there_too() -> None:
    named = {path for answer in answers().values() for path in re.findall(r"`([\w.]+(?:/[\w.]+)+)`", answer)}
    assert named, "the answers name some"
    assert not [path for path in named if not ((ROOT / path).exists() or (ROOT / "services" / path).exists())]
