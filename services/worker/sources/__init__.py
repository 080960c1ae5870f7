"""Source tasks: records of users' topics, and the cuts of these records into batches."""
