"""The controller's decisions: records and the time come in, actions come out. No clock, no Kafka, no threads."""
