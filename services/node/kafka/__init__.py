"""The embedded Kafka: its brokers, their data, and the keeper that starts them again."""
