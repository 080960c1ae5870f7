"""The `holdfast` command: it starts, wires and stops everything else."""
