"""The console script: ends quietly on Ctrl-C, also while its modules are being loaded, and whatever its streams are."""

from __future__ import annotations

import os
import sys

COMPLETE = "_HOLDFAST_COMPLETE"
"""Name of the variable, as in services/cli/completion.py, which a command that runs need not load."""


def main() -> None:
    try:
        if sys.stdout is None or sys.stderr is None or sys.stdin is None:
            from holdfast.services.cli.streams import open_closed

            open_closed()
        if COMPLETE in os.environ:
            from typer._completion_classes import completion_init

            completion_init()
        from holdfast.services.cli.commands import app

        app(prog_name="holdfast")
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        from holdfast.services.cli.streams import explain

        if not explain(error):
            raise
        sys.exit(1)


if __name__ == "__main__":
    main()
