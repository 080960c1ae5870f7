"""The worker's decisions: from an event and the time to actions, without clock, Kafka or threads."""
