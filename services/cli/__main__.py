"""The console script: ends quietly on Ctrl-C, also while its modules are being loaded."""

from __future__ import annotations

import os
import sys

COMPLETE = "_HOLDFAST_COMPLETE"
"""Name of the variable, as in services/cli/completion.py, which a command that runs need not load."""


def main() -> None:
    try:
        if COMPLETE in os.environ:
            from typer._completion_classes import completion_init

            completion_init()
        from holdfast.services.cli.commands import app

        app(prog_name="holdfast")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
