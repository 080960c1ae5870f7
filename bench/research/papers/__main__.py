"""./scripts/figures."""

import sys

from bench.research.papers.command import main

sys.exit(main())
