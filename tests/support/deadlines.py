"""How long a test without a cluster waits for what must come: so long that only what hangs does not come."""

from __future__ import annotations

HANG_S = 900.0
"""A process or a thread that waits for a processor comes; such a wait took over a minute on a machine with load 25."""
