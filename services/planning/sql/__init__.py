"""SQL of a whole query: planned into the operators of a job file, before anything else is planned."""
