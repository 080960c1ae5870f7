"""The local machine: its programs, disk, ports and processes."""
