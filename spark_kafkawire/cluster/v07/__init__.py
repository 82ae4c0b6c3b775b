"""Requests of ``cluster.Cluster`` to ZooKeeper, and to the brokers of Kafka 0.6 and 0.7."""
