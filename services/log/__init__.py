"""The one door to Kafka: the `Log` protocol and its Kafka and memory implementations."""
