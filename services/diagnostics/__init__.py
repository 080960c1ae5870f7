"""Diagnostics: what a process of ours says to the people who run it, on its error stream."""
