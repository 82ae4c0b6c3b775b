"""What ``cluster.Cluster`` asks of ZooKeeper, and of the brokers of Kafka 0.6 and 0.7."""
