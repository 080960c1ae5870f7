"""The command `functions`: what the expressions and the aggregates of a job file can call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import Json
from holdfast.services.cli.terminal import print_json, print_plain, print_table
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.functions import catalogue, page
from holdfast.services.kernel.suggestions import suggest

if TYPE_CHECKING:
    from holdfast.services.kernel.functions.function import Function

Name = Annotated[str, typer.Argument(metavar="NAME", help="A function, such as date_trunc.", show_default=False)]
Search = Annotated[
    str, typer.Option("--search", metavar="TEXT", help="Functions whose name or sentence holds these words.")
]
Markdown = Annotated[bool, typer.Option("--markdown", help="The page docs/functions.md.")]


def functions(name: Name = "", search: Search = "", markdown: Markdown = False, as_json: Json = False) -> None:
    """List the functions and aggregates of job files, or show one with an example. No cluster is needed."""
    if name and search:
        raise CommandFailed("give a name or --search, not both", code=USAGE)
    if markdown:
        print_plain(page.markdown().rstrip("\n"))
        return
    found = _found(name, search)
    if as_json:
        print_json([_as_json(one) for one in found])
    elif name:
        for one in found:
            _show(one)
    else:
        print_table(("function", "gives"), [(one.signature.partition(" -> ")[0], one.sentence) for one in found])


def _found(name: str, search: str) -> list[Function]:
    if name:
        found = catalogue.named(name)
        if not found:
            known = [other.lower() for other in (*catalogue.BY_NAME, *catalogue.AGGREGATE_BY_NAME)]
            hint = suggest(name.lower(), known) or "`holdfast functions --search TEXT` looks into the sentences"
            raise CommandFailed(f"there is no function {name}", hint)
        return found
    found = catalogue.searched(search)
    if not found:
        raise CommandFailed(f"no function has the words '{search}'", "`holdfast functions` lists all of them")
    return found


def _show(one: Function) -> None:
    print_plain(one.signature)
    print_plain(f"  {one.sentence}" + (f" Also: {', '.join(one.also)}." if one.also else ""))
    print_plain(f"  {page.example(one)}")


def _as_json(one: Function) -> dict[str, object]:
    return {
        "name": one.name, "also": one.also, "signature": one.signature, "sentence": one.sentence,
        "example": one.example, "value": one.value,
    }  # fmt: skip
