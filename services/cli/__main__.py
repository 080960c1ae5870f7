"""The console script: ends quietly on Ctrl-C, also while its modules are being loaded."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from services.cli.commands import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
