"""Facts about one copy: its unit on this host, the view for a turn, steps and phases that are timed."""
