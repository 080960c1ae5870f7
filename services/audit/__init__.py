"""Whether the sinks hold what the job's input makes of it: a job computed again, and compared."""
