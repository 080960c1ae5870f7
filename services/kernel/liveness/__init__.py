"""Liveness of workers: one judgement for everyone who asks."""
