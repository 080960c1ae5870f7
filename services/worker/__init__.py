"""A worker hosts copies of units: pure cores that decide, and a shell that carries out."""
