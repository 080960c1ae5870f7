"""Source tasks: records of users' topics, and the cuts that name them."""
