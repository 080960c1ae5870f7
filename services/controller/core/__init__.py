"""The controller's decisions: what was read and the time come in, actions come out. No clock, no Kafka, no threads."""
