"""This machine: its programs, disk, ports and processes."""
