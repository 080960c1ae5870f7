"""A Python operator's code in a process of its own: the worker's side, the process's side, and the channel between
them."""
