"""The only access to Kafka: the `Log` protocol, with its implementations on Kafka and in memory."""
