"""Requests of ``cluster.Cluster`` to the brokers of modern Kafka (0.8 to 4.x)."""
