"""The decisions, without a clock and without Kafka."""
