"""The processes of a cluster on this machine: their names, ends and spares."""
