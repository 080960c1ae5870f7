"""The worker's decisions: an event and the time come in, actions come out. No clock, no Kafka, no threads."""
