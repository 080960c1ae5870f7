"""The processes of a cluster on this machine: their names and ends."""
