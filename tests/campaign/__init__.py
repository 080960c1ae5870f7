"""The campaigns: long runs on real processes that look for what a test suite has no time to find."""
