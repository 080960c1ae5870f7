"""The operators of a job: each a pure function of its inputs, its state and the batch."""
