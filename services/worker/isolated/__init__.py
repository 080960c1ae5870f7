"""A Python operator's code in a process of its own: the worker's side, the child's side, and the way between them."""
