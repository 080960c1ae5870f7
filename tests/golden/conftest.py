"""Polars computes on one thread, as it does in a worker, where this folder is the first to import it."""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")
