"""SQL of a whole query, replaced by operators of the job file before all other planning."""
