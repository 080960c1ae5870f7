"""The log on a Kafka cluster, through confluent-kafka, with answers that are checked before they count."""
