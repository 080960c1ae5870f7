"""Liveness of workers: one rule for all services that ask."""
