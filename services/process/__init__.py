"""Process: its health, metrics and usage of the machine, for whoever watches it."""
