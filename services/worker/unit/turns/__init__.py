"""The turns of one copy: its tasks and when each is due, its condition, its progress."""
