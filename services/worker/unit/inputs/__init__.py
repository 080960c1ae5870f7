"""The inputs of one copy: what it takes in, and the cuts that it proposes and waits for."""
