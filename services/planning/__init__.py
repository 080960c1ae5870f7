"""From a job file to a plan, and from a plan to what each unit reads and writes."""
