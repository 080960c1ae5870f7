"""Another Python process with a hash seed of its own, which calls functions for a test."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")


class OtherProcess:
    """Functions are named to it, so they must be found by import; arguments and results are pickled."""

    def __init__(self, hash_seed: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.other_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "POLARS_MAX_THREADS": "1"},
        )

    def call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Result of the function there. Raises what it raises there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((function, arguments), self._process.stdin)
        self._process.stdin.flush()
        found = pickle.load(self._process.stdout)
        if isinstance(found, BaseException):
            raise found
        result: _T = found
        return result

    def close(self) -> None:
        """Also while it is still at work, when a test was interrupted."""
        self._process.kill()
        self._process.communicate()


def main() -> None:
    """Only answers go to where they are expected: what is printed goes to the test's standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            function, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = function(*arguments)
        except Exception as error:
            answer = error
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
