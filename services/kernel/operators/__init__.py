"""The operators of a job: each is a pure function of its inputs, its state and the batch."""
