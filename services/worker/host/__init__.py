"""What the process lends to the copies of units that it hosts."""
