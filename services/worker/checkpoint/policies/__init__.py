"""Policies that say when a unit captures: one policy a file, each a pure function of the units here."""
