"""Digest of Python code by its syntax trees: other words in docstrings and comments give the same digest.

Parsing takes half a second for the kernel, so that the digest is kept beside the compiled modules, with a digest of the
texts that it belongs to.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

KEPT = "code-digest"
"""Name of the file with the digest, in the folder of compiled modules."""

WITH_BODY = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def digest(parts: Iterable[tuple[str, bytes]]) -> str:
    """Digest of named contents, in their order."""
    found = hashlib.blake2b(digest_size=6)
    for name, content in parts:
        found.update(f"{name} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def sources(root: Path, packages: Sequence[str]) -> list[tuple[str, bytes]]:
    """Name and text of each module of the packages below `root`, in a fixed order."""
    files = (file for package in packages for file in sorted((root / package).rglob("*.py")))
    return [(file.relative_to(root).as_posix(), file.read_bytes()) for file in files]


def code_digest(root: Path, packages: Sequence[str]) -> str:
    """Digest of the code of these packages. Packages without sources have the digest of nothing."""
    texts = sources(root, packages)
    of_texts, kept = digest(texts), Path(cache_from_source(str(root / KEPT))).with_name(KEPT)
    if (found := _read(kept, of_texts)) is None:
        found = digest((name, _tree(text)) for name, text in texts)
        _keep(kept, f"{of_texts} {found}")
    return found


def _tree(text: bytes) -> bytes:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, WITH_BODY):
            node.body = [part for part in node.body if not _is_docstring(part)]
    return ast.dump(tree).encode()


def _is_docstring(node: ast.stmt) -> bool:
    """A text that stands alone, at the beginning of a body or below a name."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _read(kept: Path, of_texts: str) -> str | None:
    try:
        before, _, found = kept.read_text().partition(" ")
    except OSError:
        return None
    return found if before == of_texts and found else None


def _keep(kept: Path, line: str) -> None:
    """Writes the file at once or not at all: processes that start together write it together."""
    if sys.dont_write_bytecode:
        return
    draft = kept.with_name(f"{KEPT}.{os.getpid()}")
    try:
        kept.parent.mkdir(exist_ok=True)
        draft.write_text(line)
        draft.replace(kept)
    except OSError:  # a read-only installation computes it at each start
        with suppress(OSError):
            draft.unlink()
