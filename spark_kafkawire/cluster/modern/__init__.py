"""What ``cluster.Cluster`` asks of the brokers of Kafka 0.8 and later."""
