"""Services of the process to the copies of units that it hosts."""
