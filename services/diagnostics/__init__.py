"""Diagnostics: the messages of a process to the people who run it, on its error stream."""
