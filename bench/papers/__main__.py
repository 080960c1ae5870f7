"""./scripts/figures."""

import sys

from bench.papers.command import main

sys.exit(main())
