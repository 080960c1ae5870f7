"""Planning: turns a job file into a plan, and a plan into the inputs and outputs of each unit."""
