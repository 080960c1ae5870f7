"""Checkpoint policies, which decide when a unit captures: one policy a file, each a pure function of the units here."""
