"""The worker process: its loop, its settings, its readers."""
