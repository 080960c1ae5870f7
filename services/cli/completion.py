"""The command `completion`: the script by which a shell completes commands, options and names of jobs."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from holdfast.services.cli.terminal import print_plain

VARIABLE = "_HOLDFAST_COMPLETE"
"""Variable set by the script: the command then prints the possible continuations of a line."""


class Shell(Enum):
    """Shells with a script for completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Your shell.", show_default=False)]) -> None:
    """Print the script that completes commands, options and names of jobs in your shell.

    \b
    bash:  holdfast completion bash >> ~/.bashrc
    zsh:   holdfast completion zsh > "${fpath[1]}/_holdfast"
    fish:  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
    """
    from typer._completion_shared import get_completion_script

    print_plain(get_completion_script(prog_name="holdfast", complete_var=VARIABLE, shell=shell.value))
