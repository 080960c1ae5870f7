"""An analysis answers each question in a fork of its process, in which the user's code can do what it likes."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.schemas.analysis import Answer, Question, decode_answer, encode
from holdfast.schemas.plans import SparkPlan
from holdfast.services.spark import analysis


class Session:
    """A session of no Spark."""

    def newSession(self) -> Session:
        return Session()


def ask(entry: str, path: Path) -> Answer:
    question = Question(SparkPlan("h", "u", "t", {}, {}, {}, entry=entry), None, (str(path),))
    spark: Any = Session()
    return decode_answer(analysis._of_fork(spark, encode(question)))


@pytest.fixture(autouse=True)
def _reads_an_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is what the operator's module says by then."""

    def answer(spark: object, plan: SparkPlan, allow: list[str] | None) -> Answer:
        return Answer(reason=importlib.import_module(plan.entry).reason())

    monkeypatch.setattr(analysis, "answer", answer)


def test_each_question_finds_modules_as_they_are_by_then(tmp_path: Path) -> None:
    (tmp_path / "analysed_part.py").write_text("TEXT = 'first'\n")
    (tmp_path / "analysed.py").write_text("import analysed_part\ndef reason(): return analysed_part.TEXT\n")
    assert ask("analysed", tmp_path).reason == "first"
    (tmp_path / "analysed_part.py").write_text("TEXT = 'the second'\n")
    assert ask("analysed", tmp_path).reason == "the second"
    assert not {"analysed", "analysed_part"} & set(sys.modules)


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import os; os.kill(os.getpid(), 9)", "has ended the process: signal 9"),
        ("raise SystemExit", "has ended the process: SystemExit"),
        ("1 / 0", "failed with ZeroDivisionError: division by zero"),
    ],
)
def test_code_that_ends_its_process_or_raises_is_a_problem_of_the_operator(
    code: str, cause: str, tmp_path: Path
) -> None:
    (tmp_path / "deadly.py").write_text(f"def reason():\n    {code}\n")
    (problem,) = ask("deadly", tmp_path).problems
    assert problem.path == "spark"
    assert cause in problem.message


RECORDS = """
import os
from holdfast.services.spark import analysis, class_data

os.setpgid(0, 0)
class_data.record = lambda spark, scratch: print(os.getpriority(os.PRIO_PGRP, 0))
analysis._record(None, None)
"""


@pytest.mark.slow
def test_class_data_are_made_with_a_low_priority() -> None:
    """A cluster runs jobs by then; a group of its own, so that this process keeps its priority."""
    done = subprocess.run([sys.executable, "-c", RECORDS], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(analysis.PATIENT)], done.stderr
