"""Services of the worker's process for the copies of units that it hosts."""
