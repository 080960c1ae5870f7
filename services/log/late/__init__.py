"""Late readers: a process that starts late begins near the end of a decided log."""
