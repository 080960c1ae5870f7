"""Process: its health, metrics and usage of the machine, for the tools and people that monitor it."""
