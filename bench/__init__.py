"""Measures a cluster on this machine. Run by ./scripts/bench; what is measured, and its targets: catalogue.py."""
