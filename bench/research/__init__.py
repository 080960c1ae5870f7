"""Research: the papers' figures, detectors, and an incident with a real cluster and a model."""
